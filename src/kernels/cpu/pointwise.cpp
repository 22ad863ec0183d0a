#include "gradrecomp/kernels/pointwise.h"

#include "gradrecomp/kernels/check.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/parallel_tiles.h"

namespace gradrecomp::kernels {

float rounded(float value, Dtype dtype) {
  if (dtype != Dtype::float32) vector_loops().round(dtype, &value, 1);
  return value;
}

namespace cpu {

void apply_chain(const PointwiseChain& chain, Stream /*stream*/) {
  check(chain);
  for_each_tile(chain.num_elements, [&](std::int64_t first, std::int64_t size) {
    Tile tile(chain.dtype, chain.x, chain.y, first, size);
    for (const Step& step : chain.steps) tile.apply(step);
    tile.finish();
  });
}

}  // namespace cpu
}  // namespace gradrecomp::kernels
