#include "tape/substitutes/patterns.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tape/aten/bytes.h"
#include "tape/substitutes/pointwise_pass.h"

namespace gradrecomp::tape {
namespace {

c10::Storage divided(const at::Tensor& x, int formula) {
  PointwisePass pass(x.scalar_type(), std::nullopt);
  pass.add({.kind = kernels::StepKind::div_scalar, .input = 0, .scalar = kPatternDivisor}, {},
           formula);
  return pass.run(x.storage());
}

// LibTorch multiplies by the inverse on devices, and divides on the CPU.
TEST(Patterns, TellAQuotientFromAProductWithTheInverse) {
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    SCOPED_TRACE(type);
    const at::Tensor x = pattern(kPatternSize, type, 0);
    const int by_product = type == at::kFloat ? 1 : 2;
    EXPECT_FALSE(same_bits(divided(x, 0), divided(x, by_product)));
  }
}

}  // namespace
}  // namespace gradrecomp::tape
