#include "operators/kernels.h"

#include <vector>

#include "streams/queue.h"

namespace gradrecomp::test::host_device {
namespace {

void enqueue(kernels::Stream stream, std::function<void()> work) {
  const std::lock_guard lock(mutex());
  Scheduler::get().enqueue(*static_cast<Queue*>(stream), std::move(work));
}

template <auto kKernel, typename Arguments>
void queued(const Arguments& arguments, kernels::Stream stream) {
  enqueue(stream, [arguments] { (kernels::table(c10::kCPU)->*kKernel)(arguments, nullptr); });
}

// Its steps are only there until the call returns.
void queued_chain(const kernels::PointwiseChain& chain, kernels::Stream stream) {
  const std::vector<kernels::Step> steps(chain.steps.begin(), chain.steps.end());
  enqueue(stream, [chain = kernels::PointwiseChain(chain), steps]() mutable {
    chain.steps = steps;
    kernels::table(c10::kCPU)->apply_chain(chain, nullptr);
  });
}

void queued_hashes(const kernels::HashMemory& arguments, kernels::Stream stream) {
  const std::vector<kernels::HashedMemory> parts(arguments.parts.begin(), arguments.parts.end());
  enqueue(stream, [parts] { kernels::table(c10::kCPU)->hash_memory({parts}, nullptr); });
}

}  // namespace

const kernels::Table* kernel_table() {
  using kernels::Table;
  static constexpr Table kTable{
      .batch_norm_apply = &queued<&Table::batch_norm_apply>,
      .layer_norm_apply = &queued<&Table::layer_norm_apply>,
      .apply_chain = &queued_chain,
      .pack_mask = &queued<&Table::pack_mask>,
      .unpack_mask = &queued<&Table::unpack_mask>,
      .pack_indices = &queued<&Table::pack_indices>,
      .unpack_indices = &queued<&Table::unpack_indices>,
      .round_floats = &queued<&Table::round_floats>,
      .widen_floats = &queued<&Table::widen_floats>,
      .hash_memory = &queued_hashes,
  };
  return &kTable;
}

}  // namespace gradrecomp::test::host_device
