// Conformance H7, H16: how processes and threads end, and who waits for whom.
#include <c10/core/CPUAllocator.h>
#include <gmock/gmock.h>
#include <malloc.h>
#include <torch/torch.h>

#include <atomic>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <thread>

#include "gradrecomp/region.h"
#include "support/own_process.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

torch::nn::Sequential global_model{nullptr};
at::Tensor global_tensor;
at::Tensor global_graph;

void train_global_model() {
  global_model = torch::nn::Sequential();
  for (int i = 0; i < 4; ++i) {
    global_model->push_back(torch::nn::Linear(64, 64));
    global_model->push_back(torch::nn::ReLU());
  }
  const auto x = torch::randn({16, 64});
  static Region region({.policy = "drop_all"});
  for (int step = 0; step < 3; ++step) {
    region.run([&] { return global_model->forward(x); }).sum().backward();
  }
  // A profiled step and a planned one whose graphs end with the program.
  global_graph = region.run([&] { return global_model->forward(x); });
  static at::Tensor profiled = Region().run([&] { return global_model->forward(x); });
  global_tensor = torch::ones({1000});
}

class ProcessEnd : public OwnProcess {};

TEST_F(ProcessEnd, H7WithGlobalModelsTensorsAndGraphsIsClean) {
  const auto body = [] {
    mallopt(M_PERTURB, 0xA5);  // what is freed is overwritten
    train_global_model();
    std::exit(0);
  };
  EXPECT_EXIT(body(), ::testing::ExitedWithCode(0), "");
}

TEST_F(ProcessEnd, H7WithTensorsOfThreadsIsClean) {
  const auto body = [] {
    mallopt(M_PERTURB, 0xA5);
    const auto train = [] {
      thread_local at::Tensor before = torch::ones({100});
      thread_local at::Tensor graph;
      Region region({.policy = "drop_all"});
      auto x = before.clone().requires_grad_();
      for (int step = 0; step < 2; ++step)
        region.run([&] { return x.exp().sin(); }).sum().backward();
      graph = region.run([&] { return x.exp().sin(); });
      thread_local at::Tensor after = torch::ones({100});
    };
    std::thread(train).join();
    train();
    std::exit(0);
  };
  EXPECT_EXIT(body(), ::testing::ExitedWithCode(0), "");
}

/// Runs its region once more when the program ends.
struct LastForward {
  Region* region = new Region({.policy = "drop_all"});
  at::Tensor weight = torch::randn({32, 32}).requires_grad_();
  at::Tensor x = torch::randn({8, 32});

  at::Tensor run() {
    return region->run([&] { return torch::relu(torch::tanh(x.mm(weight)) * 2 + x).sin(); });
  }
  ~LastForward() { std::cerr << "the sum is finite: " << run().sum().isfinite().item<bool>(); }
};

TEST_F(ProcessEnd, H7WithAForwardPassInADestructorIsClean) {
  const auto body = [] {
    mallopt(M_PERTURB, 0xA5);
    static LastForward last;
    for (int step = 0; step < 3; ++step) last.run().sum().backward();
    std::exit(0);
  };
  EXPECT_EXIT(body(), ::testing::ExitedWithCode(0), "the sum is finite: 1");
}

TEST_F(ProcessEnd, H7BlocksFromBeforeTheFirstRegionAreFreedThroughTheAllocatorOfLater) {
  const auto body = [] {
    mallopt(M_PERTURB, 0xA5);
    constexpr int kNumBlocks = 64;
    std::vector<void*> blocks;
    for (int i = 0; i < kNumBlocks; ++i)
      blocks.push_back(c10::GetCPUAllocator()->raw_allocate(100 + i));
    const Region region;
    for (int i = 0; i < kNumBlocks; ++i)
      blocks.push_back(c10::GetCPUAllocator()->raw_allocate(100 + i));
    for (void* block : blocks) c10::GetCPUAllocator()->raw_deallocate(block);
    std::exit(0);
  };
  EXPECT_EXIT(body(), ::testing::ExitedWithCode(0), "");
}

/// An interpreter's lock as Python has it: one for all threads, asked for by name.
struct InterpreterLock {
  std::mutex mutex;
  std::condition_variable free;
  bool taken = false;
  std::thread::id owner;

  void take() {
    std::unique_lock lock(mutex);
    free.wait(lock, [&] { return !taken; });
    taken = true;
    owner = std::this_thread::get_id();
  }
  void give_back() {
    const std::lock_guard lock(mutex);
    taken = false;
    owner = {};
    free.notify_all();
  }
  bool is_ours() {
    const std::lock_guard lock(mutex);
    return taken && owner == std::this_thread::get_id();
  }
};

InterpreterLock& interpreter() {
  static auto* lock = new InterpreterLock;
  return *lock;
}

/// An operator in the interpreter's language: it runs with the lock.
at::Tensor slow_exp(const at::Tensor& x) {
  const bool had_it = interpreter().is_ours();
  if (!had_it) interpreter().take();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  auto y = x.exp();
  if (!had_it) interpreter().give_back();
  return y;
}

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) { library.def("slow_exp(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("slow_exp", slow_exp);
}

at::Tensor call_slow_exp(const at::Tensor& x) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("gradrecomp_test::slow_exp", "")
                             .typed<at::Tensor(const at::Tensor&)>();
  return op.call(x);
}

/// Backward in the interpreter's language: it asks for what was saved with the lock.
struct ScriptedExp : torch::autograd::Function<ScriptedExp> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto y = call_slow_exp(x);
    context->save_for_backward({y});
    return y;
  }
  static Tensors backward(torch::autograd::AutogradContext* context, Tensors gradients) {
    interpreter().take();
    const auto y = context->get_saved_variables()[0];
    interpreter().give_back();
    return {gradients[0] * y};
  }
};

class Interpreter : public OwnProcess {};

TEST_F(Interpreter, H16LockIsGivenBackBeforeWaitingForATape) {
  const auto body = [] {
    const auto x = torch::ones({8}).requires_grad_();
    for (int repeat = 0; repeat < 10; ++repeat) {
      const auto y = detail::run_dropped([&] {
        return ScriptedExp::apply(ScriptedExp::apply(x.sin()).cos()) * ScriptedExp::apply(x);
      });
      std::vector<std::thread> threads;
      for (int i = 0; i < 4; ++i) {
        threads.emplace_back(
            [&] { torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true); });
      }
      for (auto& thread : threads) thread.join();
    }
    std::_Exit(0);
  };
  const auto in_time = [&] {
    alarm(60);  // a deadlock ends by this signal
    body();
  };
  EXPECT_EXIT(in_time(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace gradrecomp::test

// The names by which Python's interpreter is found in a process.
extern "C" {
__attribute__((visibility("default"))) int Py_IsInitialized() { return 1; }
__attribute__((visibility("default"))) int PyGILState_Check() {
  return gradrecomp::test::interpreter().is_ours() ? 1 : 0;
}
__attribute__((visibility("default"))) void* PyEval_SaveThread() {
  gradrecomp::test::interpreter().give_back();
  return &gradrecomp::test::interpreter();
}
__attribute__((visibility("default"))) void PyEval_RestoreThread(void* /*state*/) {
  gradrecomp::test::interpreter().take();
}
}
