#include "gradrecomp/kernels/layer_norm.h"

#include "gradrecomp/kernels/check.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/parallel_tiles.h"
#include "kernels/cpu/parameters.h"

namespace gradrecomp::kernels::cpu {

void layer_norm_apply(const LayerNorm& args, Stream /*stream*/) {
  check(args);
  if (args.num_rows == 0 || args.num_columns == 0) return;
  const Parameters mean(args.mean, args.statistics_dtype, args.num_rows, 0);
  const Parameters rstd(args.rstd, args.statistics_dtype, args.num_rows, 1);
  const Parameters gamma(args.gamma, args.parameter_dtype, args.num_columns, 1);
  const Parameters beta(args.beta, args.parameter_dtype, args.num_columns, 0);
  const auto piece_of = [&](Tile& tile) {
    return [&](std::int64_t row, std::int64_t column, std::int64_t begin, std::int64_t size) {
      const Normalisation by{args.rounding,         Coefficients::weights_per_element,
                             mean.data() + row,     rstd.data() + row,
                             gamma.data() + column, beta.data() + column};
      vector_loops().normalise(by, tile.input() + begin, tile.values() + begin, size);
    };
  };
  for_each_tile(args.num_rows * args.num_columns, [&](std::int64_t first, std::int64_t size) {
    Tile tile(args.dtype, args.x, args.y, first, size);
    for_each_run(args.num_columns, first, size, piece_of(tile));
    tile.computed();
    tile.finish();
  });
}

}  // namespace gradrecomp::kernels::cpu
