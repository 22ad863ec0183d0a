#include "fuzz/world/threads.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <exception>
#include <thread>

namespace gradrecomp::fuzzing {

void run_on_threads(const std::vector<std::function<void()>>& tasks) {
  std::vector<std::exception_ptr> failures(tasks.size());
  std::vector<std::thread> threads;
  // Each thread has its own number of workers, by which a convolution rounds its sums, and its own
  // receiver of warnings.
  const int num_workers = at::get_num_threads();
  c10::WarningHandler* const warnings = c10::WarningUtils::get_warning_handler();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    threads.emplace_back([&, i] {
      at::set_num_threads(num_workers);
      const c10::WarningUtils::WarningHandlerGuard guard(warnings);
      try {
        tasks[i]();
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace gradrecomp::fuzzing
