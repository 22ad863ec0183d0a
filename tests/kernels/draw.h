#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "gradrecomp/version.h"

namespace gradrecomp::kernels {

/// Draws the arguments of kernels; the same ones for the same seed.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) { torch::manual_seed(seed); }

  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution(low, high)(random_);
  }
  bool coin() { return between(0, 1) == 1; }
  template <class Choices>
  auto one_of(const Choices& choices) {
    return choices[static_cast<std::size_t>(between(0, std::ssize(choices) - 1))];
  }

  /// Few, or some near a power of two, where packs, warps and blocks end.
  std::int64_t size(std::int64_t highest_power) {
    const std::int64_t near = std::int64_t{1} << between(0, highest_power);
    return coin() ? between(0, near) : std::max<std::int64_t>(0, near + between(-2, 2));
  }

  /// Ordinary numbers, among them sometimes infinities, zeros of both signs, subnormals, NaN and
  /// what overflows 16 bits.
  torch::Tensor numbers(std::vector<std::int64_t> sizes, torch::ScalarType dtype) {
    const double inf = std::numeric_limits<double>::infinity();
    auto x = torch::randn(sizes, torch::kDouble) * 3;
    if (coin()) {
      const auto special =
          torch::tensor({inf, -inf, 0.0, -0.0, 3e-8, -3e-8, 6e4, -6e4, 1e-40, 1e38,
                         std::numeric_limits<double>::quiet_NaN(), 65519.0, 65520.0},
                        torch::kDouble);
      const auto chosen = special.index({torch::randint(special.numel(), sizes)});
      x = torch::where(torch::rand(sizes) < 0.1, chosen, x);
    }
    return x.to(dtype);
  }

  /// `numbers` or no tensor.
  torch::Tensor perhaps(const torch::Tensor& x) { return coin() ? x : torch::Tensor(); }

  /// Elements to skip before the first, so that it is aligned half of the time.
  std::int64_t skipped() { return coin() ? 0 : between(1, 15); }

 private:
  std::mt19937_64 random_;
};

}  // namespace gradrecomp::kernels
