#include "tape/device_contents.h"

#include <c10/core/DeviceGuard.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "gradrecomp/kernels/table.h"
#include "tape/aten/bytes.h"
#include "tape/aten/capture.h"
#include "tape/geometry/geometry.h"
#include "tape/own_work.h"

namespace gradrecomp::tape {
namespace {

Extent clipped(Extent extent, const c10::Storage& storage) {
  return {extent.begin, std::min(extent.end, bytes_in(storage))};
}

const char* bytes_at(const c10::Storage& storage, std::int64_t position) {
  return static_cast<const char*>(storage.data()) + position;
}

std::int64_t num_hashes(std::int64_t num_bytes) {
  return kernels::num_hash_blocks(num_bytes) * kernels::kHashLanes;
}

}  // namespace

bool DeviceContents::can_look_at(const c10::Storage& storage) {
  const kernels::Table* table = kernels::table(storage.device_type());
  return !storage.device().is_cpu() && table != nullptr && table->hash_memory != nullptr;
}

DeviceContents::~DeviceContents() {
  try {
    wait();
  } catch (const std::exception&) {
    // The device has failed, and reports that to its next user.
    return;
  }
}

void DeviceContents::expect(ValueId value, const c10::Storage& storage, Extent extent,
                            const c10::Stream& stream) {
  extent = clipped(extent, storage);
  if (size_of(extent) <= 0) return;
  auto& parts = expected_.emplace(value, Expected{storage, stream, {}}).first->second.parts;
  const auto is_known = [&](const Part& part) { return covers(part.extent, extent); };
  if (std::ranges::none_of(parts, is_known)) parts.push_back({.extent = extent});
}

/// As tensors may overlap that ops read. Many of them are hashed as one.
void DeviceContents::merge_overlapping(std::vector<Part>& parts) {
  constexpr std::size_t kMostParts = 1000;
  std::ranges::sort(parts, {}, [](const Part& part) { return part.extent.begin; });
  const bool are_many = parts.size() > kMostParts;
  std::vector<Part> merged;
  for (const Part& part : parts) {
    const bool joins =
        !merged.empty() && (are_many || part.extent.begin < merged.back().extent.end);
    if (!joins) {
      merged.push_back(part);
      continue;
    }
    std::int64_t& end = merged.back().extent.end;
    end = std::max(end, part.extent.end);
  }
  parts = std::move(merged);
}

void DeviceContents::hash_expected() {
  if (expected_.empty()) return;
  if (is_capturing()) return expected_.clear();
  const OwnWork own_work;
  try {
    for (auto& [value, expected] : expected_) {
      merge_overlapping(expected.parts);
      for (Part& part : expected.parts) {
        const std::int64_t size = size_of(part.extent);
        part.hashes = expected_hashes_.allocate(num_hashes(size));
        queue_.push_back({expected.storage,
                          expected.stream,
                          {bytes_at(expected.storage, part.extent.begin), size, part.hashes}});
      }
      expected.storage = c10::Storage();
    }
  } catch (const c10::Error&) {
    give_up();  // there is no pinned memory
    return expected_.clear();
  }
  run_queue();
}

void DeviceContents::look(Look look, const c10::Storage& storage, Extent extent,
                          std::int32_t sweep) {
  const auto expected = expected_.find(look.value);
  if (expected == expected_.end() || is_capturing()) return;
  extent = clipped(extent, storage);
  const auto part = std::ranges::find_if(
      expected->second.parts, [&](const Part& known) { return covers(known.extent, extent); });
  if (part == expected->second.parts.end() || size_of(extent) <= 0) return;
  const std::int64_t offset = extent.begin - part->extent.begin;
  const Extent blocks = {offset / kernels::kHashBlockBytes,
                         kernels::num_hash_blocks(offset + size_of(extent))};
  if (part->last_sweep == sweep && covers(part->last_blocks, blocks)) return;
  part->last_sweep = sweep;
  part->last_blocks = blocks;
  const std::int64_t begin = part->extent.begin + blocks.begin * kernels::kHashBlockBytes;
  const std::int64_t size =
      std::min(size_of(blocks) * kernels::kHashBlockBytes, part->extent.end - begin);
  std::uint64_t* now = nullptr;
  const OwnWork own_work;
  try {
    now = looked_at_.allocate(num_hashes(size));
  } catch (const c10::Error&) {
    return;  // there is no pinned memory
  }
  const Comparison comparison{look, part->hashes + blocks.begin * kernels::kHashLanes, now,
                              num_hashes(size)};
  queue_.push_back(
      {storage, expected->second.stream, {bytes_at(storage, begin), size, now}, comparison});
}

// A step must not fail because a kernel of ours does, as it may on a card that it was not compiled
// for.
void DeviceContents::run_queue() {
  if (queue_.empty()) return;
  try {
    while (!queue_.empty()) run_on(c10::Stream(queue_.front().stream));
  } catch (const c10::Error& error) {
    TORCH_WARN_ONCE("GradRecomp does not compare memory of a device, because its kernel failed: ",
                    error.what_without_backtrace());
    expected_.clear();
    queue_.clear();
  }
}

/// Has one call hash what is queued for `stream`.
void DeviceContents::run_on(const c10::Stream& stream) {
  std::vector<kernels::HashedMemory> memory;
  const auto first = std::stable_partition(
      queue_.begin(), queue_.end(), [&](const Queued& queued) { return queued.stream != stream; });
  const c10::ArrayRef<Queued> due(&*first, static_cast<std::size_t>(queue_.end() - first));
  for (const Queued& queued : due) memory.push_back(queued.memory);
  const c10::DeviceGuard on_device(stream.device());
  kernels::table(stream.device_type())->hash_memory({memory}, stream.native_handle());
  note_end(stream);
  for (const Queued& queued : due) {
    if (queued.comparison) comparisons_.push_back(*queued.comparison);
  }
  queue_.erase(first, queue_.end());
}

void DeviceContents::note_end(const c10::Stream& stream) {
  auto last = std::ranges::find(last_work_, stream, &LastWork::stream);
  if (last == last_work_.end()) {
    last_work_.push_back({stream, c10::Event(stream.device_type())});
    last = std::prev(last_work_.end());
  }
  last->end.record(stream);
}

void DeviceContents::wait() const {
  for (const LastWork& work : last_work_) work.end.synchronize();
}

std::optional<DeviceContents::Look> DeviceContents::find_changed() {
  if (comparisons_.empty()) return std::nullopt;
  wait();
  const auto changed = std::ranges::find_if(comparisons_, [](const Comparison& comparison) {
    return !std::equal(comparison.before, comparison.before + comparison.num_hashes,
                       comparison.now);
  });
  const auto found = changed == comparisons_.end() ? std::nullopt : std::optional(changed->look);
  comparisons_.clear();
  looked_at_.clear();
  return found;
}

}  // namespace gradrecomp::tape
