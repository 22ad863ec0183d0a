#include "streams/worker.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace gradrecomp::test::host_device {
namespace {

struct Silence final : c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

class Processor {
 public:
  Processor() {
    std::thread([this] { serve(); }).detach();
  }

  void run(const std::function<void()>& work) {
    const std::lock_guard turn(turns_);
    std::unique_lock lock(mutex_);
    work_ = &work;
    changed_.notify_all();
    changed_.wait(lock, [this] { return work_ == nullptr; });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  [[noreturn]] void serve() {
    at::set_num_threads(1);
    const c10::AutoGradMode no_gradients(false);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    Silence silence;
    const c10::WarningUtils::WarningHandlerGuard quiet(&silence);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return work_ != nullptr; });
      try {
        (*work_)();
      } catch (...) {
        error_ = std::current_exception();
      }
      work_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex turns_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* work_ = nullptr;
  std::exception_ptr error_;
};

}  // namespace

void run_on_processor(const std::function<void()>& work) {
  static auto* processor = new Processor;  // its thread outlives statics
  processor->run(work);
}

}  // namespace gradrecomp::test::host_device
