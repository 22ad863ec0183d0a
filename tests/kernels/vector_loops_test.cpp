#include "kernels/cpu/vector_loops.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

namespace gradrecomp::kernels {
namespace {

// Every 16-bit pattern but those of NaNs, whose payload does not matter.
std::vector<std::uint16_t> all_numbers(torch::ScalarType type) {
  std::vector<std::uint16_t> numbers;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto stored = static_cast<std::uint16_t>(bits);
    const bool is_nan = type == torch::kHalf
                            ? std::isnan(float{c10::Half(stored, c10::Half::from_bits())})
                            : std::isnan(float{c10::BFloat16(stored, c10::BFloat16::from_bits())});
    if (!is_nan) numbers.push_back(stored);
  }
  return numbers;
}

torch::Tensor tensor_over(std::vector<std::uint16_t>& stored, torch::ScalarType type) {
  return torch::from_blob(stored.data(), {static_cast<std::int64_t>(stored.size())}, type);
}

torch::Tensor tensor_over(std::vector<float>& values) {
  return torch::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, torch::kFloat);
}

// Around each number of 16 bits: itself, its halfway points to its neighbours, and beyond those.
std::vector<float> numbers_and_halfway_points(torch::ScalarType type) {
  auto stored = all_numbers(type);
  const auto exact = tensor_over(stored, type).to(torch::kFloat);
  const auto sorted = std::get<0>(exact.sort());
  const auto halfway = (sorted.slice(0, 1) * 0.5 + sorted.slice(0, 0, -1) * 0.5);
  const auto inf = torch::full_like(halfway, std::numeric_limits<float>::infinity());
  const auto all = torch::cat({exact, halfway, halfway.nextafter(inf), halfway.nextafter(-inf),
                               torch::randn({5003}) * 1e-7, torch::randn({5003}) * 1e5});
  const auto finite = all.masked_select(all.isnan().logical_not());
  return {finite.data_ptr<float>(), finite.data_ptr<float>() + finite.numel()};
}

class VectorLoopsTest : public ::testing::TestWithParam<const VectorLoops*> {};

TEST_P(VectorLoopsTest, LoadsEveryNumberLikeLibTorch) {
  for (const auto& [type, dtype] :
       {std::pair(torch::kHalf, Dtype::float16), std::pair(torch::kBFloat16, Dtype::bfloat16)}) {
    auto stored = all_numbers(type);
    std::vector<float> loaded(stored.size());
    GetParam()->load(dtype, stored.data(), loaded.data(), static_cast<std::int64_t>(stored.size()));
    const auto expected = tensor_over(stored, type).to(torch::kFloat);
    EXPECT_TRUE(tensor_over(loaded).view(torch::kInt).equal(expected.view(torch::kInt))) << type;
  }
}

TEST_P(VectorLoopsTest, StoresToTheNearestNumberLikeLibTorch) {
  for (const auto& [type, dtype] :
       {std::pair(torch::kHalf, Dtype::float16), std::pair(torch::kBFloat16, Dtype::bfloat16)}) {
    auto values = numbers_and_halfway_points(type);
    std::vector<std::uint16_t> stored(values.size());
    GetParam()->store(dtype, values.data(), stored.data(),
                      static_cast<std::int64_t>(values.size()));
    const auto expected = tensor_over(values).to(type);
    EXPECT_TRUE(tensor_over(stored, type).view(torch::kShort).equal(expected.view(torch::kShort)))
        << type;
  }
}

TEST_P(VectorLoopsTest, StoresNanAsNan) {
  for (const Dtype dtype : {Dtype::float16, Dtype::bfloat16}) {
    std::vector<float> nan(19, std::numeric_limits<float>::quiet_NaN());
    GetParam()->round(dtype, nan.data(), 19);
    EXPECT_TRUE(std::all_of(nan.begin(), nan.end(), [](float v) { return std::isnan(v); }));
  }
}

// Each formula by hand, at numbers where the roundings of all ten differ.
float by_hand(Rounding rounding, float x, float mean, float invstd, float g, float b) {
  // volatile: each operation rounds, whatever the compiler may contract.
  volatile const float scale = invstd * g, centred = x - mean, moved = mean * invstd;
  volatile const float normal = centred * invstd, weighted = centred * g;
  volatile const float scaled_mean = mean * scale, shift = b - scaled_mean, scaled_x = x * scale;
  volatile const float x_by_invstd = x * invstd, shifted = x_by_invstd - moved;
  volatile const float normal_g = normal * g, weighted_i = weighted * invstd;
  volatile const float centred_scale = centred * scale, shifted_g = shifted * g;
  switch (rounding) {
    case Rounding::affine_fused:
      return std::fma(x, scale, std::fma(-mean, scale, b));
    case Rounding::affine_separate:
      return scaled_x + shift;
    case Rounding::centred_fused:
      return std::fma(normal, g, b);
    case Rounding::centred_separate:
      return normal_g + b;
    case Rounding::weighted_fused:
      return std::fma(weighted, invstd, b);
    case Rounding::weighted_separate:
      return weighted_i + b;
    case Rounding::centred_affine_fused:
      return std::fma(centred, scale, b);
    case Rounding::centred_affine_separate:
      return centred_scale + b;
    case Rounding::shifted_fused:
      return std::fma(std::fma(x, invstd, -moved), g, b);
    case Rounding::shifted_separate:
      return shifted_g + b;
  }
  return 0;
}

TEST_P(VectorLoopsTest, NormalisesInEachRoundingForEachKindOfCoefficients) {
  constexpr std::int64_t kSize = 1003;
  const auto x = torch::randn({kSize}) * 3 + 1, mean = torch::randn({kSize});
  const auto invstd = torch::rand({kSize}) + 0.1, g = torch::randn({kSize}),
             b = torch::randn({kSize});
  using enum Coefficients;
  for (const Rounding rounding : kRoundings) {
    for (const Coefficients kind : {per_span, per_element, weights_per_element}) {
      const Normalisation by{rounding,
                             kind,
                             mean.data_ptr<float>(),
                             invstd.data_ptr<float>(),
                             g.data_ptr<float>(),
                             b.data_ptr<float>()};
      std::vector<float> y(kSize), expected(kSize);
      GetParam()->normalise(by, x.data_ptr<float>(), y.data(), kSize);
      for (std::int64_t i = 0; i < kSize; ++i) {
        const std::int64_t s = kind == per_element ? i : 0, w = kind == per_span ? 0 : i;
        expected[i] = by_hand(rounding, x.data_ptr<float>()[i], by.mean[s], by.invstd[s],
                              by.gamma[w], by.beta[w]);
      }
      EXPECT_EQ(y, expected) << static_cast<int>(rounding) << ' ' << static_cast<int>(kind);
    }
  }
}

TEST(RoundingTest, NoTwoGiveTheSameBits) {
  const auto x = torch::randn({4096}) * 3 + 1;
  std::vector<std::vector<float>> results;
  const float mean = 0.37F, invstd = 0.71F, g = 1.3F, b = 0.19F;
  for (const Rounding rounding : kRoundings) {
    const Normalisation by{rounding, Coefficients::per_span, &mean, &invstd, &g, &b};
    vector_loops().normalise(by, x.data_ptr<float>(), results.emplace_back(4096).data(), 4096);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(results[i], results[j]) << i << ' ' << j;
  }
}

INSTANTIATE_TEST_SUITE_P(Processor, VectorLoopsTest, ::testing::Values(&vector_loops()));
INSTANTIATE_TEST_SUITE_P(EveryProcessor, VectorLoopsTest, ::testing::Values(&portable_loops()));

}  // namespace
}  // namespace gradrecomp::kernels
