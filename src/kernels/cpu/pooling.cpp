#include "kernels/arithmetic/pooling.h"

#include "gradrecomp/kernels/check.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/parallel_tiles.h"

namespace gradrecomp::kernels::cpu {

void pack_indices(const PackIndices& args, Stream /*stream*/) {
  check(args);
  for_each_tile(args.pooling.num_outputs(), [&](std::int64_t first, std::int64_t size) {
    for (std::int64_t i = first; i < first + size; ++i) {
      args.offsets[i] = offset_of(args.pooling, window_at(args.pooling, i), args.indices[i]);
    }
  });
}

void unpack_indices(const UnpackIndices& args, Stream /*stream*/) {
  check(args);
  for_each_tile(args.pooling.num_outputs(), [&](std::int64_t first, std::int64_t size) {
    for (std::int64_t i = first; i < first + size; ++i) {
      args.indices[i] = index_of(args.pooling, window_at(args.pooling, i), args.offsets[i]);
    }
  });
}

}  // namespace gradrecomp::kernels::cpu
