#include "tape/geometry/geometry.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace gradrecomp::tape {
namespace {

void expect_rebuilt(const at::Tensor& tensor) {
  const auto again = Geometry(tensor).over(tensor.storage());
  EXPECT_EQ(again.sizes(), tensor.sizes());
  EXPECT_EQ(again.strides(), tensor.strides());
  EXPECT_EQ(again.storage_offset(), tensor.storage_offset());
  EXPECT_EQ(again.dtype(), tensor.dtype());
  EXPECT_EQ(again.is_conj(), tensor.is_conj());
  EXPECT_EQ(again.is_neg(), tensor.is_neg());
  EXPECT_TRUE(torch::equal(again, tensor.detach()));
  EXPECT_FALSE(again.requires_grad());
}

TEST(Geometry, RebuildsViewsAndLayouts) {
  const auto x = torch::randn({2, 3, 4, 5}).requires_grad_();
  expect_rebuilt(x);
  expect_rebuilt(x.transpose(1, 3));
  expect_rebuilt(x.slice(1, 1, 3).slice(3, 0, 5, 2));
  expect_rebuilt(x.contiguous(at::MemoryFormat::ChannelsLast));
  expect_rebuilt(x.mean().expand({3, 3}));
  expect_rebuilt(torch::randn({0, 7}));
  expect_rebuilt(torch::arange(9).to(torch::kByte));
}

TEST(Geometry, RebuildsLazyConjugatesAndNegatives) {
  const auto x = torch::randn({3}, torch::kComplexFloat);
  expect_rebuilt(x.conj());
  expect_rebuilt(torch::imag(x.conj()));
}

TEST(Geometry, KeepsTheMarkThatDecidesTypePromotion) {
  auto number = torch::ones({}, torch::kDouble);
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  const auto again = Geometry(number).over(number.storage());
  EXPECT_EQ((torch::ones({2}) + again).scalar_type(), torch::kFloat);
}

}  // namespace
}  // namespace gradrecomp::tape
