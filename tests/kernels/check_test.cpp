#include <gtest/gtest.h>
#include <torch/torch.h>

#include "gradrecomp/kernels/table.h"

namespace gradrecomp::kernels {
namespace {

const Table& cpu() { return *table(c10::kCPU); }

template <class Call>
void expect_value_error(const Call& call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "nothing thrown; expected an error with: " << part;
  } catch (const c10::ValueError& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(TableTest, DevicesWithoutKernelsHaveNoTable) { EXPECT_EQ(table(c10::kMeta), nullptr); }

TEST(TableTest, KnowsOnlyDtypesItsKernelsTake) {
  EXPECT_EQ(dtype_of(torch::kBFloat16), Dtype::bfloat16);
  EXPECT_EQ(dtype_of(torch::kDouble), std::nullopt);
}

TEST(CheckTest, NegativeSizesAreRefused) {
  expect_value_error([] { cpu().batch_norm_apply({.num_images = -1}, nullptr); },
                     "batch_norm_apply: num_images is -1, but must be at least 0.");
}

TEST(CheckTest, MissingMemoryIsRefused) {
  expect_value_error([] { cpu().layer_norm_apply({.num_rows = 1, .num_columns = 2}, nullptr); },
                     "layer_norm_apply: x is null");
}

TEST(CheckTest, HashesThatGoNowhereAreRefused) {
  const char byte = 0;
  const HashedMemory memory{&byte, 1, nullptr};
  expect_value_error(
      [&] {
        cpu().hash_memory({{&memory, 1}}, nullptr);
      },
      "hash_memory: hashes is null");
}

TEST(CheckTest, CoefficientsOfAThirdDtypeAreRefused) {
  const BatchNorm args{.dtype = Dtype::float16, .parameter_dtype = Dtype::bfloat16};
  expect_value_error([&] { cpu().batch_norm_apply(args, nullptr); }, "parameter_dtype is");
}

TEST(CheckTest, TooLongAChainIsRefused) {
  const std::vector<Step> steps(kMaxSteps + 1);
  expect_value_error([&] { cpu().apply_chain({.steps = steps}, nullptr); },
                     "the number of steps is 9, but must be at most 8.");
}

TEST(CheckTest, StepWithoutItsOperandIsRefused) {
  float x = 0;
  const Step steps[] = {{StepKind::add}};
  expect_value_error(
      [&] { cpu().apply_chain({.num_elements = 1, .x = &x, .y = &x, .steps = steps}, nullptr); },
      "operand of a step is null");
}

TEST(CheckTest, ElementsOfAMaskHaveTheSizeOfANumber) {
  expect_value_error([&] { cpu().pack_mask({.num_elements = 1, .element_bytes = 3}, nullptr); },
                     "pack_mask: element_bytes is 3, but must be 1, 2, 4 or 8.");
  expect_value_error([&] { cpu().unpack_mask({.num_elements = 1, .element_bytes = 16}, nullptr); },
                     "unpack_mask: element_bytes is 16, but must be 1, 2, 4 or 8.");
}

TEST(CheckTest, WindowsOfMoreThan256PositionsDoNotFit) {
  const Pooling pooling{.input_width = 40, .kernel_height = 17, .kernel_width = 16};
  EXPECT_FALSE(offsets_fit(pooling));
  expect_value_error([&] { cpu().pack_indices({pooling}, nullptr); },
                     "kernel_height * kernel_width is 272, but must be at most 256.");
}

}  // namespace
}  // namespace gradrecomp::kernels
