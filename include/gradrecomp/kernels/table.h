#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>

#include "gradrecomp/export.h"
#include "gradrecomp/kernels/batch_norm.h"
#include "gradrecomp/kernels/compact.h"
#include "gradrecomp/kernels/hash.h"
#include "gradrecomp/kernels/layer_norm.h"
#include "gradrecomp/kernels/pointwise.h"

namespace gradrecomp::kernels {

/// Where a device enqueues its work: c10::Stream::native_handle(), null on the CPU.
using Stream = void*;

/// The kernels of one kind of device. Pointers in the arguments are to that device's memory, of
/// any alignment its elements allow; the current device is the one they belong to.
///
/// Calls return at once on devices with streams. A call of no elements does nothing.
/// Throws: c10::ValueError if arguments are out of range, c10::Error if a launch fails.
struct Table {
  void (*batch_norm_apply)(const BatchNorm&, Stream) = nullptr;
  void (*layer_norm_apply)(const LayerNorm&, Stream) = nullptr;
  void (*apply_chain)(const PointwiseChain&, Stream) = nullptr;
  void (*pack_mask)(const PackMask&, Stream) = nullptr;
  void (*unpack_mask)(const UnpackMask&, Stream) = nullptr;
  void (*pack_indices)(const PackIndices&, Stream) = nullptr;
  void (*unpack_indices)(const UnpackIndices&, Stream) = nullptr;
  void (*round_floats)(const RoundFloats&, Stream) = nullptr;
  void (*widen_floats)(const WidenFloats&, Stream) = nullptr;
  void (*hash_memory)(const HashMemory&, Stream) = nullptr;
};

/// The kernels for `device`; null where there are none. The CPU always has all of them.
GRADRECOMP_API const Table* table(c10::DeviceType device);

/// Makes `kernels`, which must outlive the program, those of `device`. Libraries of kernels call
/// it when they are loaded.
GRADRECOMP_API void register_table(c10::DeviceType device, const Table* kernels);

/// The dtype by that name; nothing where the kernels do not know it.
GRADRECOMP_API std::optional<Dtype> dtype_of(c10::ScalarType type);

}  // namespace gradrecomp::kernels
