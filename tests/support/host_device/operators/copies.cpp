#include "operators/copies.h"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <torch/library.h>

#include "memory/pinned_memory.h"
#include "operators/view.h"
#include "streams/queue.h"
#include "streams/streams.h"
#include "streams/worker.h"

namespace gradrecomp::test::host_device {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

void copy_views(const View& to, const View& from) {
  auto tensors = tensors_in_place();
  tensors.of(to).copy_(tensors.of(from));
}

void copy_between_devices(const at::Tensor& to, const at::Tensor& from) {
  auto& scheduler = Scheduler::get();
  auto& source = scheduler.current(from.device());
  auto& target = scheduler.current(to.device());
  scheduler.enqueue_wait(source, target.end());
  scheduler.enqueue(source, [to = view_of(to), from = view_of(from)] { copy_views(to, from); });
  scheduler.enqueue_wait(target, source.end());
}

// Pageable memory is read before the call returns.
void copy_to_device(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  auto& scheduler = Scheduler::get();
  auto& queue = scheduler.current(to.device());
  if (non_blocking && pinned_memory().contains(from.const_data_ptr())) {
    scheduler.enqueue(queue, [to = view_of(to), from = view_of(from)] { copy_views(to, from); });
    return pinned_memory().note_use(from.const_data_ptr(), queue);
  }
  at::Tensor staged;
  run_on_processor([&] { staged = from.clone(); });
  scheduler.enqueue(queue, [to = view_of(to), staged] { tensors_in_place().of(to).copy_(staged); });
  if (!non_blocking) scheduler.synchronize(queue.end());
}

// Pageable memory is written before the call returns.
void copy_to_host(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  auto& scheduler = Scheduler::get();
  auto& queue = scheduler.current(from.device());
  scheduler.enqueue(queue, [to = view_of(to), from = view_of(from)] { copy_views(to, from); });
  if (non_blocking && pinned_memory().contains(to.const_data_ptr())) {
    return pinned_memory().note_use(to.const_data_ptr(), queue);
  }
  scheduler.synchronize(queue.end());
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool non_blocking) {
  const Lock lock(mutex());
  if (!is_asynchronous()) {
    on_host(target).copy_(on_host(self));
  } else if (self.is_cpu()) {
    copy_to_device(target, self, non_blocking);
  } else if (target.is_cpu()) {
    copy_to_host(target, self, non_blocking);
  } else if (self.device() == target.device()) {
    // The host finds that out before it queues anything.
    at::assert_no_internal_overlap(target);
    at::assert_no_partial_overlap(target, self);
    auto& queue = Scheduler::get().current(self.device());
    Scheduler::get().enqueue(
        queue, [to = view_of(target), from = view_of(self)] { copy_views(to, from); });
  } else {
    copy_between_devices(target, self);
  }
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& target) {
  if (target.sizes() != self.sizes()) target.resize_(self.sizes());
  return copy_from(self, target, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  const Lock lock(mutex());
  auto& scheduler = Scheduler::get();
  scheduler.synchronize(scheduler.current(self.device()).end());
  return on_host(self).item();
}

}  // namespace

void register_copies() {
  static auto library = MAKE_TORCH_LIBRARY_IMPL(aten, PrivateUse1);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("_local_scalar_dense", &local_scalar_dense);
  // Else LibTorch would resolve such tensors first, by a copy.
  static auto conjugated = MAKE_TORCH_LIBRARY_IMPL(aten, Conjugate);
  conjugated.impl("_copy_from", torch::CppFunction::makeFallthrough());
  static auto negated = MAKE_TORCH_LIBRARY_IMPL(aten, Negative);
  negated.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

}  // namespace gradrecomp::test::host_device
