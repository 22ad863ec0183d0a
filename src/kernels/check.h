#pragma once

#include "gradrecomp/kernels/table.h"

namespace gradrecomp::kernels {

/// Throw c10::ValueError, naming the first argument that is out of range. Every device's entries
/// of the table begin with it.
void check(const BatchNorm& args);
void check(const LayerNorm& args);
void check(const PointwiseChain& chain);
void check(const PackMask& args);
void check(const UnpackMask& args);
void check(const PackIndices& args);
void check(const UnpackIndices& args);

}  // namespace gradrecomp::kernels
