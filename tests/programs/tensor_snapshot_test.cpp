#include "measure/tensor_snapshot.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "gradrecomp/memory_meter.h"

namespace gradrecomp::program {
namespace {

TEST(TensorSnapshot, ComparesBits) {
  const auto nan = torch::full({2}, std::numeric_limits<float>::quiet_NaN());
  const auto zero = torch::zeros({});
  const TensorSnapshot snapshot({nan, zero, torch::Tensor()});
  EXPECT_TRUE(snapshot.equals({nan.clone(), zero.clone(), torch::Tensor()}));
  EXPECT_FALSE(snapshot.equals({nan, -zero, torch::Tensor()})) << "-0 is another content";
  EXPECT_FALSE(snapshot.equals({nan, zero, zero}));
  EXPECT_FALSE(snapshot.equals({nan, zero}));
}

TEST(TensorSnapshot, RestoresWithoutCountedMemory) {
  install_cpu_counter();
  const std::vector<torch::Tensor> tensors{torch::rand({100}), torch::arange(3)};
  const auto expected = tensors[0].clone();
  const MemoryMeter meter(c10::kCPU);
  const TensorSnapshot snapshot(tensors);
  for (const auto& tensor : tensors) tensor.zero_();
  snapshot.restore(tensors);
  EXPECT_EQ(meter.measured_peak_bytes(), 0);
  EXPECT_TRUE(tensors[0].equal(expected));
  EXPECT_TRUE(snapshot.equals(tensors));
}

}  // namespace
}  // namespace gradrecomp::program
