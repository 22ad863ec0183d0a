// What it costs an op that its call is boxed and passed on, and that its saved tensor is held by a
// hook, before anything is noted down: less than that no recorder of calls can add. GradRecomp's
// own is not in this program.
#include <ATen/core/dispatch/Dispatcher.h>
#include <benchmark/benchmark.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <memory>
#include <optional>
#include <utility>

#include "op_chain.h"

namespace {

using namespace gradrecomp::benchmarks;
using torch::autograd::Engine;

constexpr auto kKey = c10::DispatchKey::Fake;

void pass_on(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard no_recursion(kKey);
  const c10::DispatchKeySet below(c10::DispatchKeySet::FULL_AFTER, kKey);
  op.redispatchBoxed(keys & below, stack);
}

/// Holds the memory of what was saved, which is never asked for.
class Hook final : public torch::autograd::SavedVariableHooks {
 public:
  void call_pack_hook(const at::Tensor& tensor) override { memory_ = tensor.storage(); }
  at::Tensor call_unpack_hook() override { return {}; }
  std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>> retrieve_unpack_hook_data()
      const override {
    return std::nullopt;
  }

 private:
  c10::Storage memory_;
};

bool gives_hooks = false;

class HookingEngine final : public Engine {
 public:
  ~HookingEngine() override { stop(); }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return gives_hooks ? std::make_unique<Hook>() : nullptr;
  }
};

Engine& hooking_engine() {
  static auto* engine = new HookingEngine;
  return *engine;
}

void install() {
  static torch::Library* library = nullptr;
  if (library != nullptr) return;
  library = new torch::Library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
  library->fallback(torch::CppFunction::makeFromBoxedFunction<&pass_on>());
  torch::autograd::set_default_engine_stub(&hooking_engine);
}

void run(benchmark::State& state, bool with_hooks) {
  const auto x = torch::randn({1}).requires_grad_();
  const auto forward = [&] { return chain(x); };
  gives_hooks = with_hooks;
  for (auto _ : state) benchmark::DoNotOptimize(forward());
  per_op(state, forward);
  gives_hooks = false;
}

void forward_plain(benchmark::State& state) { run(state, false); }
BENCHMARK(forward_plain);

void forward_boxed(benchmark::State& state) {
  install();
  const c10::impl::IncludeDispatchKeyGuard boxed(kKey);
  run(state, false);
}
BENCHMARK(forward_boxed);

void forward_hooked(benchmark::State& state) {
  install();
  run(state, true);
}
BENCHMARK(forward_hooked);

void forward_boxed_and_hooked(benchmark::State& state) {
  install();
  const c10::impl::IncludeDispatchKeyGuard boxed(kKey);
  run(state, true);
}
BENCHMARK(forward_boxed_and_hooked);

}  // namespace
