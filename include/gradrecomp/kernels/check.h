#pragma once

#include "gradrecomp/export.h"
#include "gradrecomp/kernels/table.h"

namespace gradrecomp::kernels {

/// Throw c10::ValueError, naming the first argument that is out of range. Every device's entries
/// of the table begin with it.
GRADRECOMP_API void check(const BatchNorm& args);
GRADRECOMP_API void check(const LayerNorm& args);
GRADRECOMP_API void check(const PointwiseChain& chain);
GRADRECOMP_API void check(const PackMask& args);
GRADRECOMP_API void check(const UnpackMask& args);
GRADRECOMP_API void check(const PackIndices& args);
GRADRECOMP_API void check(const UnpackIndices& args);
GRADRECOMP_API void check(const RoundFloats& args);
GRADRECOMP_API void check(const WidenFloats& args);
GRADRECOMP_API void check(const HashMemory& args);

}  // namespace gradrecomp::kernels
