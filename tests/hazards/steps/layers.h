#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace gradrecomp::test {

/// Linear layers of one width, a GELU behind each.
inline torch::nn::Sequential layers(int count, std::int64_t width = 24) {
  torch::nn::Sequential made;
  for (int i = 0; i < count; ++i) {
    made->push_back(torch::nn::Linear(width, width));
    made->push_back(torch::nn::GELU());
  }
  return made;
}

}  // namespace gradrecomp::test
