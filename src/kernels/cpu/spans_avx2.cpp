// Compiled for processors with AVX2, FMA and F16C.
#include "kernels/cpu/spans_loops.h"

namespace gradrecomp::kernels {

extern const Spans kAvx2Spans;
const Spans kAvx2Spans = kSpans;

}  // namespace gradrecomp::kernels
