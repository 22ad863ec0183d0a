#include "gradrecomp/kernels/batch_norm.h"

#include "gradrecomp/kernels/check.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/parallel_tiles.h"
#include "kernels/cpu/parameters.h"

namespace gradrecomp::kernels::cpu {
namespace {

struct Channels {
  explicit Channels(const BatchNorm& args)
      : mean(args.mean, args.statistics_dtype, args.num_channels, 0),
        invstd(args.invstd, args.statistics_dtype, args.num_channels, 1),
        gamma(args.gamma, args.parameter_dtype, args.num_channels, 1),
        beta(args.beta, args.parameter_dtype, args.num_channels, 0) {}

  Parameters mean, invstd, gamma, beta;
};

// Runs are the planes of single channels, or the channels of single pixels.
void normalise_tile(const BatchNorm& args, const Channels& channels, Tile& tile) {
  const bool by_plane = args.layout == Layout::channels_first;
  const std::int64_t run_length = by_plane ? args.inner : args.num_channels;
  Normalisation by{.rounding = args.rounding,
                   .coefficients = by_plane ? Coefficients::per_span : Coefficients::per_element};
  for_each_run(run_length, tile.first(), tile.size(),
               [&](std::int64_t run, std::int64_t offset, std::int64_t begin, std::int64_t size) {
                 const std::int64_t channel = by_plane ? run % args.num_channels : offset;
                 by.mean = channels.mean.data() + channel;
                 by.invstd = channels.invstd.data() + channel;
                 by.gamma = channels.gamma.data() + channel;
                 by.beta = channels.beta.data() + channel;
                 vector_loops().normalise(by, tile.input() + begin, tile.values() + begin, size);
               });
  tile.computed();
}

}  // namespace

void batch_norm_apply(const BatchNorm& args, Stream /*stream*/) {
  check(args);
  const std::int64_t num_elements = args.num_images * args.num_channels * args.inner;
  if (num_elements == 0) return;
  const Channels channels(args);
  for_each_tile(num_elements, [&](std::int64_t first, std::int64_t size) {
    Tile tile(args.dtype, args.x, args.y, first, size);
    normalise_tile(args, channels, tile);
    if (args.residual != nullptr) tile.apply({StepKind::add, args.residual});
    if (args.relu) tile.apply({StepKind::relu});
    tile.finish();
  });
}

}  // namespace gradrecomp::kernels::cpu
