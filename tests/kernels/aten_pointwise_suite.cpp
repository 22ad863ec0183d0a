#include "aten_suite.h"
#include "norm_cases.h"

namespace gradrecomp::kernels {
namespace {

torch::Tensor run(const Table& kernels, Stream stream, const torch::Tensor& x,
                  const std::vector<Step>& steps) {
  auto y = torch::empty_like(x);
  kernels.apply_chain({.num_elements = x.numel(),
                       .dtype = *dtype_of(x.scalar_type()),
                       .x = data_of(x),
                       .y = y.data_ptr(),
                       .steps = steps},
                      stream);
  return y;
}

// Infinities, zeros of both signs, subnormals and what overflows 16 bits, among ordinary numbers.
torch::Tensor awkward(std::int64_t size, torch::ScalarType dtype) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto special =
      torch::tensor({inf, -inf, 0.0, -0.0, 3e-8, -3e-8, 6e4, -6e4, 1e-40, 1e38}, torch::kDouble);
  auto x = torch::randn({size}, torch::kDouble) * 3;
  const auto count = std::min<std::int64_t>(size, special.numel());
  x.narrow(0, size - count, count).copy_(special.narrow(0, 0, count));
  return x.to(dtype);
}

const std::vector<std::int64_t> kSizes{0, 1, 7, 17, 1000, 4097};

// Whether LibTorch rounds a scalar first depends on the operator and the device.
testing::AssertionResult same_for_some_scalar(const std::function<torch::Tensor(float)>& apply,
                                              float scalar, const torch::Tensor& expected) {
  const auto as_it_is = same_bytes(apply(scalar), expected);
  return as_it_is ? as_it_is
                  : same_bytes(apply(rounded(scalar, *dtype_of(expected.scalar_type()))), expected);
}

// On a device it may multiply by the inverse.
testing::AssertionResult same_for_some_quotient(
    const std::function<torch::Tensor(const Step&)>& apply, float divisor,
    const torch::Tensor& expected) {
  const auto divide = [&](float scalar) { return apply({StepKind::div_scalar, nullptr, scalar}); };
  const auto multiply = [&](float scalar) {
    return apply({StepKind::mul_scalar, nullptr, 1 / scalar});
  };
  const auto as_it_is = same_for_some_scalar(divide, divisor, expected);
  return as_it_is || expected.is_cpu() ? as_it_is
                                       : same_for_some_scalar(multiply, divisor, expected);
}

TEST_P(AtenSuite, EachStepEqualsItsOperator) {
  for (const auto dtype : kDtypes) {
    for (const std::int64_t size : kSizes) {
      const auto x = on_device(awkward(size, dtype));
      // Never the inverse of x, which would make a NaN.
      const auto other = on_device((torch::rand({size}) + 0.5).to(dtype));
      const auto apply = [&](const Step& step) { return run(kernels(), stream(), x, {step}); };
      EXPECT_TRUE(same_bytes(apply({StepKind::relu}), x.relu())) << dtype << size;
      EXPECT_TRUE(same_bytes(apply({StepKind::add, data_of(other)}), x + other)) << dtype << size;
      EXPECT_TRUE(same_bytes(apply({StepKind::mul, data_of(other)}), x * other)) << dtype << size;
      const auto add = [&](float scalar) { return apply({StepKind::add_scalar, nullptr, scalar}); };
      const auto mul = [&](float scalar) { return apply({StepKind::mul_scalar, nullptr, scalar}); };
      EXPECT_TRUE(same_for_some_scalar(add, 0.1F, x + 0.1F)) << dtype << size;
      EXPECT_TRUE(same_for_some_scalar(mul, 1 / 0.9F, x * (1 / 0.9F))) << dtype << size;
      EXPECT_TRUE(same_for_some_quotient(apply, 0.9F, x / 0.9F)) << dtype << size;
    }
  }
}

TEST_P(AtenSuite, ChainOfDropoutAndResidualEqualsItsOperators) {
  for (const auto dtype : kDtypes) {
    for (const std::int64_t size : kSizes) {
      const auto x = on_device(torch::randn({size}).to(dtype));
      const auto residual = on_device(torch::randn({size}).to(dtype));
      const auto mask = on_device(torch::rand({size}) < 0.7);
      const auto chain = [&](float scale) {
        return run(kernels(), stream(), x,
                   {{StepKind::relu},
                    {StepKind::mask, data_of(mask)},
                    {StepKind::mul_scalar, nullptr, scale},
                    {StepKind::add, data_of(residual)},
                    {StepKind::mul, data_of(residual)}});
      };
      const auto expected = (x.relu().mul(mask).mul_(1 / 0.7F) + residual) * residual;
      EXPECT_TRUE(same_for_some_scalar(chain, 1 / 0.7F, expected)) << dtype << size;
    }
  }
}

TEST_P(AtenSuite, ChainReadsUnalignedViews) {
  for (const auto dtype : kDtypes) {
    const auto x = misaligned(on_device(torch::randn({4099}).to(dtype)));
    const auto other = misaligned(on_device(torch::randn({4099}).to(dtype)));
    const auto y = run(kernels(), stream(), x, {{StepKind::add, data_of(other)}});
    EXPECT_TRUE(same_bytes(y, x + other)) << dtype;
  }
}

TEST_P(AtenSuite, ReluKeepsNan) {
  const auto x = on_device(torch::full({37}, std::numeric_limits<float>::quiet_NaN()));
  EXPECT_TRUE(run(kernels(), stream(), x, {{StepKind::relu}}).isnan().all().item<bool>());
}

}  // namespace
}  // namespace gradrecomp::kernels
