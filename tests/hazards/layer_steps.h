#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <iterator>
#include <utility>

#include "support/modes.h"

namespace gradrecomp::test {

inline constexpr int kNumSteps = 4;

/// Two layers and their gradients.
class Layers {
 public:
  explicit Layers(std::int64_t width) : a(width, width), b(width, 4) {}

  /// Gradients of the squares of `y`, which leaves none behind.
  Tensors gradients(const at::Tensor& y) {
    y.pow(2).mean().backward();
    Tensors all = {y.detach().clone()};
    for (auto& layer : {a, b}) {
      for (auto& parameter : layer->parameters()) {
        all.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
      }
    }
    return all;
  }

  torch::nn::Linear a;
  torch::nn::Linear b;
};

inline void append(Tensors& all, Tensors more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// A program of steps that differ by `body(layers, x, step)`, which runs in the region, and
/// `after`, which runs between forward and backward.
inline HostileProgram steps_of(
    std::int64_t width, const std::function<at::Tensor(Layers&, const at::Tensor&, int)>& body,
    const std::function<void(Layers&, at::Tensor&)>& after = {}) {
  return [=](const RunPart& run) {
    Layers layers(width);
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      at::Tensor x = torch::randn({width, width});
      const at::Tensor y = run([&] { return body(layers, x, step); });
      if (after) after(layers, x);
      append(all, layers.gradients(y));
    }
    return all;
  };
}

}  // namespace gradrecomp::test
