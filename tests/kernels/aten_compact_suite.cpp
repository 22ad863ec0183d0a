#include <cstring>
#include <limits>

#include "aten_suite.h"

namespace gradrecomp::kernels {
namespace {

TEST_P(AtenSuite, MaskComesBackFromAnEighthOfItsBytes) {
  for (const std::int64_t size : {0, 1, 7, 8, 9, 63, 1000, 70001}) {
    const auto mask = on_device(torch::rand({size}) < 0.5);
    const auto bits =
        torch::full({packed_mask_bytes(size)}, 255, mask.options().dtype(torch::kByte));
    kernels().pack_mask({size, data_of(mask), bits.data_ptr()}, stream());
    const auto back = torch::ones_like(mask);
    kernels().unpack_mask({size, data_of(bits), back.data_ptr()}, stream());
    EXPECT_TRUE(same_bytes(back, mask)) << size;
  }
}

TEST_P(AtenSuite, MaskMayBeOfNumbers) {
  for (const auto type : {torch::kHalf, torch::kBFloat16, torch::kFloat, torch::kDouble}) {
    for (const std::int64_t size : {0, 1, 9, 1000, 70001}) {
      const auto mask = on_device((torch::rand({size}) < 0.5).to(type));
      const auto bits =
          torch::full({packed_mask_bytes(size)}, 255, mask.options().dtype(torch::kByte));
      kernels().pack_mask({size, data_of(mask), bits.data_ptr(), mask.element_size()}, stream());
      const auto of_bools = torch::full_like(bits, 255);
      const auto bools = mask.to(torch::kBool);
      kernels().pack_mask({size, data_of(bools), of_bools.data_ptr()}, stream());
      EXPECT_TRUE(same_bytes(bits, of_bools)) << size;
      std::uint64_t one = 0;
      std::memcpy(&one, torch::ones({}, type).data_ptr(), c10::elementSize(type));
      const auto back = torch::full_like(mask, 3);
      kernels().unpack_mask({size, data_of(bits), back.data_ptr(), mask.element_size(), one},
                            stream());
      EXPECT_TRUE(same_bytes(back, mask)) << size;
    }
  }
}

TEST_P(AtenSuite, ElementsAreBitsFromTheLowestOnAndUnusedBitsAreZero) {
  const auto mask = on_device(torch::tensor({1, 0, 1, 1, 0, 0, 0, 0, 1, 1}).to(torch::kBool));
  const auto bits = torch::full({2}, 255, mask.options().dtype(torch::kByte));
  kernels().pack_mask({10, data_of(mask), bits.data_ptr()}, stream());
  EXPECT_TRUE(bits.cpu().equal(torch::tensor({0b1101, 0b11}, torch::kByte)));
}

TEST_P(AtenSuite, MaskMayBeginAtAnyAddress) {
  const auto mask = misaligned(on_device(torch::rand({1001}) < 0.5));
  const auto bits = torch::empty({packed_mask_bytes(1001)}, mask.options().dtype(torch::kByte));
  kernels().pack_mask({1001, data_of(mask), bits.data_ptr()}, stream());
  const auto back = misaligned(torch::ones_like(mask));
  kernels().unpack_mask({1001, data_of(bits), back.data_ptr()}, stream());
  EXPECT_TRUE(same_bytes(back, mask));
}

torch::Tensor rounded_by(const Table& kernels, const torch::Tensor& numbers, Stream stream) {
  const auto rounded = torch::empty_like(numbers, torch::kBFloat16);
  kernels.round_floats({numbers.numel(), numbers.const_data_ptr<float>(),
                        static_cast<std::uint16_t*>(rounded.data_ptr())},
                       stream);
  return rounded;
}

TEST_P(AtenSuite, NumbersAreRoundedAsToBfloat16) {
  for (const std::int64_t size : {0, 1, 7, 1000, 70001}) {
    const auto exponents = torch::randint(-130, 127, {size}).to(torch::kFloat);
    const auto numbers = on_device(torch::randn({size}) * exponents.exp2());
    const auto rounded = rounded_by(kernels(), numbers, stream());
    const auto expected = numbers.to(torch::kBFloat16);
    EXPECT_TRUE(same_bytes(rounded, expected)) << size;
    const auto back = torch::empty_like(numbers);
    kernels().widen_floats({size, static_cast<const std::uint16_t*>(rounded.const_data_ptr()),
                            back.mutable_data_ptr<float>()},
                           stream());
    EXPECT_TRUE(same_bytes(back, expected.to(torch::kFloat))) << size;
  }
}

TEST_P(AtenSuite, RoundedNumbersStayFiniteAndNaN) {
  const float largest = std::numeric_limits<float>::max();
  const float infinity = std::numeric_limits<float>::infinity();
  const auto numbers = on_device(torch::tensor({largest, -largest, infinity, -infinity}));
  const auto rounded = rounded_by(kernels(), numbers, stream()).cpu().to(torch::kFloat);
  const float largest_of_16_bits = 0x1.FEp127F;
  const auto expected =
      torch::tensor({largest_of_16_bits, -largest_of_16_bits, infinity, -infinity});
  EXPECT_TRUE(same_bytes(rounded, expected)) << rounded;
  const auto nan = on_device(torch::full({9}, std::numeric_limits<float>::quiet_NaN()));
  EXPECT_TRUE(rounded_by(kernels(), nan, stream()).isnan().all().item<bool>());
}

torch::Tensor hashes_of(const Table& kernels, const torch::Tensor& bytes, Stream stream) {
  const auto hashes = torch::zeros({num_hash_blocks(bytes.numel()), kHashLanes},
                                   bytes.options().dtype(torch::kLong));
  const HashedMemory memory{data_of(bytes), bytes.numel(),
                            static_cast<std::uint64_t*>(hashes.data_ptr())};
  kernels.hash_memory({{&memory, 1}}, stream);
  return hashes.cpu();
}

TEST_P(AtenSuite, AnyByteThatChangesChangesOneHash) {
  for (const std::int64_t size : {1, 7, 8, 9, 255, 256, 257, 65535, 65536, 65537, 200001}) {
    for (const bool aligned : {true, false}) {
      const auto random = on_device(torch::randint(256, {size}, torch::kByte));
      const auto bytes = aligned ? random : misaligned(random);
      const auto before = hashes_of(kernels(), bytes, stream());
      EXPECT_TRUE(before.equal(hashes_of(kernels(), random, stream())));
      for (const std::int64_t position : {std::int64_t{0}, size / 3, size / 2, size - 1}) {
        bytes[position].add_(1);
        const auto after = hashes_of(kernels(), bytes, stream());
        EXPECT_EQ((before != after).sum().item<std::int64_t>(), 1) << size << " " << position;
        bytes[position].sub_(1);
      }
    }
  }
}

TEST_P(AtenSuite, EqualWordsInOtherOrderHaveOtherHashes) {
  const auto words = on_device(torch::arange(1 << 14, torch::kLong));
  const auto bytes = [](const torch::Tensor& x) { return x.view(torch::kByte); };
  const auto before = hashes_of(kernels(), bytes(words), stream());
  EXPECT_FALSE(before.equal(hashes_of(kernels(), bytes(words.flip(0)), stream())));
}

struct Window2d {
  std::vector<std::int64_t> kernel, stride, padding, dilation;
  bool ceil_mode = false;
};

const std::vector<Window2d> kWindows{{{3, 3}, {2, 2}, {1, 1}, {1, 1}},
                                     {{2, 2}, {2, 2}, {0, 0}, {1, 1}},
                                     {{3, 5}, {1, 3}, {1, 2}, {2, 1}, true},
                                     {{2, 3}, {3, 2}, {0, 1}, {3, 2}},
                                     {{16, 16}, {5, 7}, {8, 4}, {1, 1}, true}};

Pooling pooling_of(const torch::Tensor& x, const torch::Tensor& y, const Window2d& w,
                   Layout layout) {
  return {.num_images = x.size(0),
          .num_channels = x.size(1),
          .input_height = x.size(2),
          .input_width = x.size(3),
          .output_height = y.size(2),
          .output_width = y.size(3),
          .kernel_height = w.kernel[0],
          .kernel_width = w.kernel[1],
          .stride_height = w.stride[0],
          .stride_width = w.stride[1],
          .padding_height = w.padding[0],
          .padding_width = w.padding[1],
          .dilation_height = w.dilation[0],
          .dilation_width = w.dilation[1],
          .layout = layout};
}

TEST_P(AtenSuite, PoolingIndicesComeBackFromAByteEach) {
  for (const Window2d& w : kWindows) {
    for (const Layout layout : {Layout::channels_first, Layout::channels_last}) {
      // CUDA's channels-last pooling begins at index 0 wherever the window lies, so the library
      // does not pack its indices.
      if (layout == Layout::channels_last && on_device(torch::ones({1})).is_cuda()) continue;
      auto x = torch::randn({2, 5, 33, 37});
      if (layout == Layout::channels_last) x = x.contiguous(torch::MemoryFormat::ChannelsLast);
      // Ties, and a plane where no element is above the lowest.
      x.select(0, 1).select(0, 2).fill_(-std::numeric_limits<float>::infinity());
      const auto [y, indices] = at::max_pool2d_with_indices(on_device(x), w.kernel, w.stride,
                                                            w.padding, w.dilation, w.ceil_mode);
      const auto pooling = pooling_of(x, y, w, layout);
      ASSERT_TRUE(offsets_fit(pooling));
      const auto offsets = torch::empty({y.numel()}, y.options().dtype(torch::kByte));
      kernels().pack_indices(
          {pooling, indices.data_ptr<std::int64_t>(), offsets.data_ptr<std::uint8_t>()}, stream());
      const auto back = torch::zeros_like(indices);
      kernels().unpack_indices(
          {pooling, offsets.data_ptr<std::uint8_t>(), back.data_ptr<std::int64_t>()}, stream());
      EXPECT_TRUE(same_bytes(back, indices)) << w.kernel << static_cast<int>(layout);
    }
  }
}

}  // namespace
}  // namespace gradrecomp::kernels
