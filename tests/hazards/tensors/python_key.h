#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/core/impl/PyObjectSlot.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <memory>
#include <string>
#include <utility>

namespace gradrecomp::test {

/// What LibTorch takes for Python's interpreter: calls that reach the dispatch key Python come to
/// handle().
class Interpreter : public c10::impl::PyInterpreterVTable {
 public:
  virtual void handle(const c10::OperatorHandle& op, torch::jit::Stack* stack) const = 0;

  [[nodiscard]] c10::impl::PyInterpreter* get() const { return &interpreter_; }

  std::string name() const override { return "stand-in"; }
  void dispatch(const c10::OperatorHandle& op, torch::jit::Stack* stack) const override {
    const c10::impl::ExcludeDispatchKeyGuard once(c10::python_ks);
    handle(op, stack);
  }
  c10::intrusive_ptr<c10::TensorImpl> detach(const c10::TensorImpl* self) const override {
    const c10::impl::ExcludeDispatchKeyGuard once(c10::python_ks);
    return self->shallow_copy_and_detach(c10::VariableVersion(0), false);
  }

  // What only objects of Python's need.
  using Impl = c10::TensorImpl;
  void incref(PyObject*) const override {}
  void decref(PyObject*) const override {}
  bool try_incref(const c10::impl::PyObjectSlot&) const override { return false; }
  std::size_t refcnt(PyObject*) const override { return 0; }
  void reportErrorCallback(PyObject*, c10::DispatchKey) const override {}
  void python_op_registration_trampoline(const c10::OperatorHandle&, c10::DispatchKey,
                                         c10::DispatchKeySet, torch::jit::Stack*, bool,
                                         bool) const override {
    refuse();
  }
  void throw_abstract_impl_not_imported_error(std::string, const char*,
                                              const char*) const override {
    refuse();
  }
  void python_dispatcher(const c10::OperatorHandle&, c10::DispatchKeySet,
                         torch::jit::Stack*) const override {
    refuse();
  }
  bool is_contiguous(const Impl*, at::MemoryFormat) const override { refuse(); }
  c10::SymBool sym_is_contiguous(const Impl*, at::MemoryFormat) const override { refuse(); }
  bool is_strides_like(const Impl*, at::MemoryFormat) const override { refuse(); }
  bool is_non_overlapping_and_dense(const Impl*) const override { refuse(); }
  c10::Device device(const Impl*) const override { refuse(); }
  std::int64_t dim(const Impl*) const override { refuse(); }
  c10::IntArrayRef strides(const Impl*) const override { refuse(); }
  c10::IntArrayRef sizes(const Impl*) const override { refuse(); }
  c10::SymIntArrayRef sym_sizes(const Impl*) const override { refuse(); }
  c10::Layout layout(const Impl*) const override { refuse(); }
  std::int64_t numel(const Impl*) const override { refuse(); }
  c10::SymInt sym_numel(const Impl*) const override { refuse(); }
  c10::SymIntArrayRef sym_strides(const Impl*) const override { refuse(); }
  c10::SymInt sym_storage_offset(const Impl*) const override { refuse(); }
  void reset_backward_hooks(const Impl*) const override {}

  using Type = c10::DeviceType;
  void trace_gpu_event_creation(Type, std::uintptr_t) const override {}
  void trace_gpu_event_deletion(Type, std::uintptr_t) const override {}
  void trace_gpu_event_record(Type, std::uintptr_t, std::uintptr_t) const override {}
  void trace_gpu_event_wait(Type, std::uintptr_t, std::uintptr_t) const override {}
  void trace_gpu_memory_allocation(Type, std::uintptr_t) const override {}
  void trace_gpu_memory_deallocation(Type, std::uintptr_t) const override {}
  void trace_gpu_stream_creation(Type, std::uintptr_t) const override {}
  void trace_gpu_device_synchronization(Type) const override {}
  void trace_gpu_stream_synchronization(Type, std::uintptr_t) const override {}
  void trace_gpu_event_synchronization(Type, std::uintptr_t) const override {}

 private:
  [[noreturn]] static void refuse() { TORCH_CHECK(false, "there is no Python"); }

  mutable c10::impl::PyInterpreter interpreter_{this};
};

}  // namespace gradrecomp::test
