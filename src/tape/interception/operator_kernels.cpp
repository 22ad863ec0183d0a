#include "tape/interception/operator_kernels.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tape/aten/intercepted_key.h"
#include "tape/interception/interceptor.h"

#if __has_include(<c10/core/impl/FakeTensorModeTLS.h>)
#include <c10/core/impl/FakeTensorModeTLS.h>
#define GRADRECOMP_HAS_FAKE_TENSOR_MODE
#endif

namespace gradrecomp::tape {
namespace {

using FoundKernel = std::shared_ptr<const c10::SafeKernelFunction>;

// Whether this thread includes the key for its previous owner.
bool their_mode_is_on() {
#ifdef GRADRECOMP_HAS_FAKE_TENSOR_MODE
  return c10::impl::FakeTensorModeTLS::get_state() != nullptr;
#else
  return !receives_calls();
#endif
}

bool is_theirs(const c10::IValue& argument) {
  if (argument.isTensor()) return argument.toTensor().key_set().has(kInterceptedKey);
  if (!argument.isTensorList() && !argument.isOptionalTensorList()) return false;
  for (const c10::IValue& element : argument.toListRef()) {
    if (element.isTensor() && is_theirs(element)) return true;
  }
  return false;
}

bool is_theirs(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  if (their_mode_is_on()) return true;
  for (const c10::IValue& argument : torch::jit::last(stack, op.schema().arguments().size())) {
    if (is_theirs(argument)) return true;
  }
  return false;
}

// Goes before the kernel that was found for an operator, and passes on what is meant for it.
class Kernel final : public c10::OperatorKernel {
 public:
  explicit Kernel(FoundKernel found) : found_(std::move(found)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) const {
    OperatorKernels::catch_up();
    if (found_ && is_theirs(op, *stack)) {
      found_->callBoxed(op, keys, stack);
    } else {
      intercept(op, keys, stack);
    }
  }

 private:
  FoundKernel found_;
};

// Only the printed table says of a fallback that it falls through.
bool falls_through(const c10::OperatorHandle& op) {
  if (op.hasKernelForDispatchKey(kInterceptedKey)) {
    return op.isKernelFallthroughKernel(kInterceptedKey);
  }
  const std::string entry = std::string(c10::toString(kInterceptedKey)) + ": fallthrough";
  return op.dumpComputedTable().find(entry) != std::string::npos;
}

FoundKernel found_kernel(const c10::OperatorHandle& op) {
  if (!op.hasComputedKernelForDispatchKey(kInterceptedKey) || falls_through(op)) return nullptr;
  return std::make_shared<const c10::SafeKernelFunction>(
      op.getComputedKernelForDispatchKey(kInterceptedKey));
}

// Names of operators without a kernel of ours. LibTorch adds to them while it holds its lock, so
// nothing that needs that lock may be called while we hold ours.
class Newcomers final : public c10::OpRegistrationListener {
 public:
  void onOperatorRegistered(const c10::OperatorHandle& op) override {
    const std::lock_guard lock(mutex_);
    names_.push_back(op.operator_name());
    any_.store(true, std::memory_order_release);
  }
  void onOperatorDeregistered(const c10::OperatorHandle& /*op*/) override {}

  [[nodiscard]] bool any() const { return any_.load(std::memory_order_acquire); }

  // Calls `welcome` on each. They count as new until the last is done.
  template <typename Welcome>
  void take(Welcome welcome) {
    for (std::vector<c10::OperatorName> names = next(); !names.empty(); names = next()) {
      for (const c10::OperatorName& name : names) welcome(name);
    }
  }

 private:
  std::vector<c10::OperatorName> next() {
    const std::lock_guard lock(mutex_);
    if (names_.empty()) any_.store(false, std::memory_order_release);
    return std::exchange(names_, {});
  }

  std::mutex mutex_;
  std::vector<c10::OperatorName> names_;
  std::atomic<bool> any_ = false;
};

class Registry {
 public:
  explicit Registry(const c10::OperatorHandle& bare) : fallback_(found_kernel(bare)) {
    auto newcomers = std::make_unique<Newcomers>();
    newcomers_ = newcomers.get();
    // LibTorch names all operators it has at once.
    handles_.push_back(c10::Dispatcher::singleton().addRegistrationListener(std::move(newcomers)));
  }

  void catch_up() {
    if (!newcomers_->any()) return;
    const std::lock_guard lock(mutex_);
    newcomers_->take([this](const c10::OperatorName& name) { add(name); });
  }

 private:
  void add(const c10::OperatorName& name) {
    auto& dispatcher = c10::Dispatcher::singleton();
    const auto op = dispatcher.findSchema(name);
    // An operator whose library is loaded anew still has its kernel.
    if (!op || !names_.insert(name).second) return;
    const bool has_own = op->hasKernelForDispatchKey(kInterceptedKey);
    auto kernel = std::make_unique<Kernel>(has_own ? found_kernel(*op) : fallback_);
    handles_.push_back(dispatcher.registerImpl(
        name, kInterceptedKey, c10::KernelFunction::makeFromBoxedFunctor(std::move(kernel)),
        std::nullopt, nullptr, "GradRecomp's recorder"));
  }

  FoundKernel fallback_;
  Newcomers* newcomers_ = nullptr;
  std::mutex mutex_;
  std::unordered_set<c10::OperatorName> names_;
  std::vector<c10::RegistrationHandleRAII> handles_;
};

std::atomic<Registry*> registry = nullptr;

}  // namespace

void OperatorKernels::install(const c10::OperatorHandle& bare) {
  registry.store(new Registry(bare), std::memory_order_release);
  catch_up();
}

void OperatorKernels::catch_up() {
  if (Registry* installed = registry.load(std::memory_order_acquire)) installed->catch_up();
}

}  // namespace gradrecomp::tape
