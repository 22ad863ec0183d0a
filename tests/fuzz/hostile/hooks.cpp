#include "fuzz/hostile/hooks.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <utility>

#include "fuzz/hostile/operations.h"
#include "fuzz/program/machine.h"

namespace gradrecomp::fuzzing {
namespace {

using torch::Tensor;

enum class Packing : std::uint8_t { none, rounded, halved, copied };

thread_local Packing packing = Packing::none;

/// What the program saves in place of what autograd would: it need not be the same.
class Packed final : public torch::autograd::SavedVariableHooks {
 public:
  explicit Packed(Packing how) : how_(how) {}

  void call_pack_hook(const Tensor& tensor) override {
    const torch::NoGradGuard no_grad;
    type_ = tensor.scalar_type();
    if (!tensor.is_floating_point()) {
      packed_ = tensor.detach();
    } else if (how_ == Packing::rounded) {
      packed_ = tensor.detach().to(torch::kBFloat16);
    } else {
      packed_ = how_ == Packing::halved ? tensor.detach() * 0.5 : tensor.detach().clone();
    }
  }
  Tensor call_unpack_hook() override { return packed_.to(type_); }

 private:
  Packing how_;
  Tensor packed_;
  at::ScalarType type_ = at::kFloat;
};

class HookingEngine final : public torch::autograd::Engine {
 public:
  ~HookingEngine() override { stop(); }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return packing == Packing::none ? nullptr : std::make_unique<Packed>(packing);
  }
};

// Never destroyed: graphs may end with the process.
torch::autograd::Engine& hooking_engine() {
  static auto* engine = new HookingEngine;
  return *engine;
}

class PackingScope {
 public:
  explicit PackingScope(Packing how) : before_(std::exchange(packing, how)) {}
  ~PackingScope() { packing = before_; }
  PackingScope(const PackingScope&) = delete;
  PackingScope& operator=(const PackingScope&) = delete;

 private:
  Packing before_;
};

void saving_hooks(Machine& machine) {
  const PackingScope scope(machine.dice().of(
      std::vector<Packing>{Packing::rounded, Packing::halved, Packing::copied, Packing::none}));
  machine.run_next(machine.dice().between(1, 4));
}

}  // namespace

void install_saving_hooks() { torch::autograd::set_default_engine_stub(&hooking_engine); }

std::vector<Operation> saving_hook_operations() { return {{"saving_hooks", 4, saving_hooks}}; }

}  // namespace gradrecomp::fuzzing
