#include "operators/operator_call.h"

#include <ATen/ATen.h>
#include <ATen/native/CPUFallback.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <array>
#include <exception>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "operators/arguments.h"
#include "operators/tensors.h"
#include "streams/queue.h"
#include "streams/worker.h"

namespace gradrecomp::test::host_device {
namespace {

using c10::IValue;
using torch::jit::Stack;
using Lock = std::lock_guard<std::recursive_mutex>;

/// Those whose numbers depend on no contents, so that they can be drawn before their turn.
bool draws_ahead(const c10::OperatorHandle& op) {
  constexpr std::array<std::string_view, 9> kNames = {
      "aten::bernoulli_", "aten::cauchy_",     "aten::exponential_",
      "aten::geometric_", "aten::log_normal_", "aten::normal_",
      "aten::random_",    "aten::randperm",    "aten::uniform_"};
  return std::ranges::find(kNames, op.schema().name()) != kNames.end() &&
         op.schema().overload_name() != "Tensor";
}

bool is_mask(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte;
}

bool has_shape_by_contents(const c10::OperatorHandle& op, const Stack& stack) {
  if (op.schema().name() != "aten::index") return op.hasTag(at::Tag::dynamic_output_shape);
  return std::ranges::any_of(
      device_tensors(stack, op.schema().arguments().size()),
      [](const auto& place) { return place.argument == 1 && is_mask(place.tensor); });
}

/// Whether the host must know contents before it can go on.
bool needs_contents(const c10::OperatorHandle& op, const Stack& stack) {
  const auto& returns = op.schema().returns();
  const bool tells = std::ranges::any_of(returns, [](const c10::Argument& value) {
    return !value.type()->isSubtypeOf(*c10::TensorType::get()) &&
           !value.type()->isSubtypeOf(*c10::ListType::ofTensors());
  });
  const bool draws = op.hasTag(at::Tag::nondeterministic_seeded) && !draws_ahead(op);
  return tells || draws || op.hasTag(at::Tag::data_dependent_output) ||
         has_shape_by_contents(op, stack);
}

template <typename Change>
void change_tensors(Stack& stack, Change change) {
  for (std::size_t i = 0; i < stack.size(); ++i) {
    if (stack[i].isTensor()) {
      stack[i] = change(stack[i].toTensor(), i, std::int64_t{-1});
    } else if (stack[i].isTensorList()) {
      auto list = stack[i].toTensorList();
      for (std::size_t k = 0; k < list.size(); ++k) {
        list.set(k, change(list.get(k), i, static_cast<std::int64_t>(k)));
      }
    }
  }
}

at::Tensor tensor_at(const Stack& stack, std::size_t position, std::int64_t element) {
  const IValue& value = stack[position];
  return element < 0 ? value.toTensor() : value.toList().get(element).toTensor();
}

/// A result in memory of its own, which the queued call fills.
struct Output {
  std::size_t position = 0;
  std::int64_t element = -1;
  View view;
};

void store(const std::vector<Output>& outputs, const Stack& returns) {
  auto tensors = tensors_in_place();
  for (const auto& output : outputs) {
    const auto result = tensor_at(returns, output.position, output.element);
    TORCH_CHECK(result.sizes() == output.view.sizes,
                "hostdevice: an operator returned other sizes than it does for zeros");
    tensors.of(output.view).copy_(result);
  }
}

/// One call of an operator on an asynchronous device.
class DeviceCall {
 public:
  DeviceCall(const c10::OperatorHandle& op, Stack& stack)
      : op_(op),
        stack_(stack),
        num_arguments_(op.schema().arguments().size()),
        places_(device_tensors(stack, num_arguments_)),
        queue_(Scheduler::get().current(device_of_call(stack, num_arguments_))) {}

  /// Finds out the results on zeros. Throws: what the call does.
  void look(const HostCall& call) {
    const Arguments arguments(stack_, num_arguments_);
    run_on_processor([&] {
      results_ = arguments.on_host(tensors_of_zeros());
      for (const auto& place : places_) {
        on_zeros_.push_back(tensor_at(results_, place.argument, place.element));
      }
      call(results_);
    });
  }

  /// Queues the call after look() and puts its results on the stack.
  void submit(const HostCall& call) {
    resize_written();
    const Arguments arguments(stack_, num_arguments_);
    hand_out();
    if (draws_ahead(op_)) return copy_drawn();
    Scheduler::get().enqueue(queue_, [arguments, call, outputs = outputs_] {
      auto stack = arguments.on_host(tensors_in_place());
      const Stack alive = stack;  // several outputs are returned as references into it
      call(stack);
      store(outputs, stack);
    });
  }

 private:
  // Operators that write into an argument may give it another shape first.
  void resize_written() {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const auto& tensor = places_[i].tensor;
      const auto& shown = on_zeros_[i];
      if (tensor.sizes() == shown.sizes() && tensor.strides() == shown.strides()) continue;
      grow(tensor, shown.storage().nbytes());
      tensor.unsafeGetTensorImpl()->set_sizes_and_strides(shown.sizes(), shown.strides(),
                                                          shown.storage_offset());
    }
  }

  void hand_out() {
    auto results = results_;
    for (auto& result : results) {
      if (result.isTensorList()) result = result.toTensorList().copy();
    }
    change_tensors(results,
                   [&](const at::Tensor& shown, std::size_t position, std::int64_t element) {
                     return made_for(shown, position, element);
                   });
    torch::jit::drop(stack_, num_arguments_);
    stack_.insert(stack_.end(), results.begin(), results.end());
  }

  /// What stands for a result of the call on zeros: an argument, a view of one, or new memory.
  at::Tensor made_for(const at::Tensor& shown, std::size_t position, std::int64_t element) {
    if (!shown.defined()) return {};
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (on_zeros_[i].is_same(shown)) return places_[i].tensor;
      if (on_zeros_[i].is_alias_of(shown)) {
        return device_tensor(places_[i].tensor.storage(), shown);
      }
    }
    const auto* memory = shown.storage().unsafeGetStorageImpl();
    auto& storage = made_.try_emplace(memory, c10::Storage()).first->second;
    if (!storage) storage = device_storage(shown.storage().nbytes());
    auto tensor = device_tensor(storage, shown);
    outputs_.push_back({position, element, view_of(tensor)});
    return tensor;
  }

  void copy_drawn() {
    std::vector<std::pair<View, at::Tensor>> drawn;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      drawn.emplace_back(view_of(places_[i].tensor), on_zeros_[i]);
    }
    Scheduler::get().enqueue(queue_, [drawn] {
      auto tensors = tensors_in_place();
      for (const auto& [view, numbers] : drawn) tensors.of(view).copy_(numbers);
    });
  }

  const c10::OperatorHandle& op_;
  Stack& stack_;
  std::size_t num_arguments_;
  std::vector<TensorPlace> places_;
  Queue& queue_;
  std::vector<at::Tensor> on_zeros_;  ///< beside places_
  Stack results_;                     ///< of the call on zeros
  std::unordered_map<const c10::StorageImpl*, c10::Storage> made_;
  std::vector<Output> outputs_;
};

}  // namespace

HostCall host_call_of(const c10::OperatorHandle& op) {
  return [op](Stack& stack) {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
  };
}

void call_on_device(const c10::OperatorHandle& op, Stack* stack, const HostCall& look,
                    const HostCall& call) {
  const Lock lock(mutex());
  const auto num_arguments = op.schema().arguments().size();
  const c10::DeviceGuard guard(device_of_call(*stack, num_arguments));
  DeviceCall submitted(op, *stack);
  submitted.look(look);
  submitted.submit(call);
}

void fallback(const c10::OperatorHandle& op, Stack* stack) {
  const Lock lock(mutex());
  const auto num_arguments = op.schema().arguments().size();
  const c10::DeviceGuard guard(device_of_call(*stack, num_arguments));
  if (is_asynchronous() && !needs_contents(op, *stack)) {
    const auto call = host_call_of(op);
    DeviceCall submitted(op, *stack);
    bool is_known = true;
    try {
      submitted.look(call);
    } catch (const std::exception& /*error*/) {
      is_known = false;  // zeros may be wrong where contents would not, so those decide
    }
    if (is_known) return submitted.submit(call);
  }
  at::native::cpu_fallback(op, stack);
}

}  // namespace gradrecomp::test::host_device
