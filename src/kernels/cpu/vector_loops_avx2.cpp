// Compiled for processors with AVX2, FMA and F16C.
#include "kernels/cpu/vector_loops_of_one_set.h"

namespace gradrecomp::kernels {

extern const VectorLoops kAvx2Loops;
const VectorLoops kAvx2Loops = kLoops;

}  // namespace gradrecomp::kernels
