#include "gradrecomp/kernels/check.h"
#include "kernels/arithmetic/half.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/parallel_tiles.h"

namespace gradrecomp::kernels::cpu {

void round_floats(const RoundFloats& args, Stream /*stream*/) {
  check(args);
  for_each_tile(args.num_elements, [&](std::int64_t first, std::int64_t size) {
    const float* numbers = args.numbers + first;
    std::uint16_t* rounded = args.rounded + first;
    for (std::int64_t i = 0; i < size; ++i) rounded[i] = to_finite_bfloat16(numbers[i]);
  });
}

void widen_floats(const WidenFloats& args, Stream /*stream*/) {
  check(args);
  for_each_tile(args.num_elements, [&](std::int64_t first, std::int64_t size) {
    const std::uint16_t* rounded = args.rounded + first;
    float* numbers = args.numbers + first;
    for (std::int64_t i = 0; i < size; ++i) numbers[i] = from_bfloat16(rounded[i]);
  });
}

}  // namespace gradrecomp::kernels::cpu
