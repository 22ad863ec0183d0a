#pragma once

#include "gradrecomp/kernels/table.h"

// The CPU's entries of the table.
namespace gradrecomp::kernels::cpu {

void batch_norm_apply(const BatchNorm& args, Stream stream);
void layer_norm_apply(const LayerNorm& args, Stream stream);
void apply_chain(const PointwiseChain& chain, Stream stream);
void pack_mask(const PackMask& args, Stream stream);
void unpack_mask(const UnpackMask& args, Stream stream);
void pack_indices(const PackIndices& args, Stream stream);
void unpack_indices(const UnpackIndices& args, Stream stream);
void round_floats(const RoundFloats& args, Stream stream);
void widen_floats(const WidenFloats& args, Stream stream);
void hash_memory(const HashMemory& args, Stream stream);

}  // namespace gradrecomp::kernels::cpu
