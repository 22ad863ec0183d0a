// Each CUDA kernel gives the bits of its twin on the CPU, without LibTorch's CUDA backend.
#include <deque>

#include "cuda_memory.h"
#include "cuda_twins.h"
#include "norm_cases.h"

namespace gradrecomp::kernels {
namespace {

std::uint64_t* words_of(void* memory) { return static_cast<std::uint64_t*>(memory); }

TEST_F(CudaTwinTest, BatchNorm) {
  for (const auto dtype : kDtypes) {
    for (const auto parameters : {torch::kFloat, dtype}) {
      for (const Layout layout : {Layout::channels_first, Layout::channels_last}) {
        for (const auto& sizes : kImageSizes) {
          for (const Rounding rounding : kRoundings) {
            const bool affine = rounding != Rounding::shifted_separate;  // once without
            const BatchNormCase operands{
                .x = images(sizes, dtype, layout),
                .mean = torch::randn({sizes[1]}).to(parameters),
                .invstd = (torch::rand({sizes[1]}) + 0.1).to(parameters),
                .gamma = affine ? torch::randn({sizes[1]}).to(parameters) : torch::Tensor(),
                .beta = affine ? torch::randn({sizes[1]}).to(parameters) : torch::Tensor(),
                .residual = affine ? images(sizes, dtype, layout) : torch::Tensor(),
                .layout = layout,
                .relu = affine};
            auto y = torch::empty_like(operands.x);
            auto args = operands.args(y, rounding);
            cpu_.batch_norm_apply(args, nullptr);
            const std::int64_t skipped = rounding == Rounding::centred_fused;  // once unaligned
            const CudaCopy x(operands.x, skipped), mean(operands.mean), invstd(operands.invstd),
                gamma(operands.gamma), beta(operands.beta), residual(operands.residual);
            args.x = args.y = x.data();
            args.mean = mean.data(), args.invstd = invstd.data();
            args.gamma = gamma.data(), args.beta = beta.data(), args.residual = residual.data();
            cuda_.batch_norm_apply(args, nullptr);
            EXPECT_TRUE(same_bytes(without_negative_zeros(x.back()), without_negative_zeros(y)))
                << dtype << sizes << static_cast<int>(layout) << static_cast<int>(rounding);
          }
        }
      }
    }
  }
}

TEST_F(CudaTwinTest, LayerNorm) {
  for (const auto dtype : kDtypes) {
    for (const std::int64_t columns : {1, 37, 64, 768, 5000}) {
      for (const Rounding rounding : kRoundings) {
        const auto x = torch::randn({19, columns}).to(dtype), mean = torch::randn({19}),
                   rstd = torch::rand({19}), gamma = torch::randn({columns}),
                   beta = torch::randn({columns});
        auto y = torch::empty_like(x);
        LayerNorm args{.num_rows = 19,
                       .num_columns = columns,
                       .dtype = *dtype_of(dtype),
                       .x = x.data_ptr(),
                       .mean = mean.data_ptr(),
                       .rstd = rstd.data_ptr(),
                       .gamma = gamma.data_ptr(),
                       .beta = beta.data_ptr(),
                       .y = y.data_ptr(),
                       .rounding = rounding};
        cpu_.layer_norm_apply(args, nullptr);
        const CudaCopy dx(x), dmean(mean), drstd(rstd), dgamma(gamma), dbeta(beta), dy(x);
        args.x = dx.data(), args.y = dy.data();
        args.mean = dmean.data(), args.rstd = drstd.data();
        args.gamma = dgamma.data(), args.beta = dbeta.data();
        cuda_.layer_norm_apply(args, nullptr);
        EXPECT_TRUE(same_bytes(dy.back(), y))
            << dtype << ' ' << columns << ' ' << static_cast<int>(rounding);
      }
    }
  }
}

TEST_F(CudaTwinTest, PointwiseChain) {
  for (const auto dtype : kDtypes) {
    for (const std::int64_t size : {1, 17, 4097}) {
      for (const std::int64_t skipped : {0, 1}) {
        const auto x = torch::randn({size}).to(dtype), other = torch::randn({size}).to(dtype);
        const auto mask = torch::rand({size}) < 0.5;
        auto y = torch::empty_like(x);
        std::vector<Step> steps{{StepKind::add, other.data_ptr()},
                                {StepKind::mul_scalar, nullptr, 1.3F},
                                {StepKind::mask, mask.data_ptr()},
                                {StepKind::add_scalar, nullptr, 0.3F},
                                {StepKind::mul, other.data_ptr()},
                                {StepKind::div_scalar, nullptr, 0.7F},
                                {StepKind::relu}};
        PointwiseChain args{size, *dtype_of(dtype), x.data_ptr(), y.data_ptr(), steps};
        cpu_.apply_chain(args, nullptr);
        const CudaCopy dx(x, skipped), dother(other, skipped), dmask(mask);
        steps[0].operand = steps[4].operand = dother.data();
        steps[2].operand = dmask.data();
        args.x = args.y = dx.data();
        cuda_.apply_chain(args, nullptr);
        EXPECT_TRUE(same_bytes(without_negative_zeros(dx.back()), without_negative_zeros(y)))
            << dtype << ' ' << size << ' ' << skipped;
      }
    }
  }
}

// More parts than one launch takes, some of them empty.
TEST_F(CudaTwinTest, Hashes) {
  std::deque<torch::Tensor> on_cpu;
  std::deque<CudaCopy> on_device;
  std::vector<HashedMemory> cpu_parts, cuda_parts;
  std::deque<torch::Tensor> expected;
  std::deque<CudaCopy> found;
  for (std::int64_t i = 0; i < 150; ++i) {
    const std::int64_t size = i % 7 == 0 ? 0 : i * i * 13;
    on_cpu.push_back(torch::randint(256, {size}, torch::kByte));
    on_device.emplace_back(on_cpu.back(), i % 3);
    expected.push_back(torch::zeros({num_hash_blocks(size), kHashLanes}, torch::kLong));
    found.emplace_back(expected.back());
    cpu_parts.push_back({on_cpu.back().data_ptr(), size, words_of(expected.back().data_ptr())});
    cuda_parts.push_back({on_device.back().data(), size, words_of(found.back().data())});
  }
  cpu_.hash_memory({cpu_parts}, nullptr);
  cuda_.hash_memory({cuda_parts}, nullptr);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(same_bytes(found[i].back(), expected[i])) << i;
  }
}

TEST_F(CudaTwinTest, PackedMask) {
  const auto mask = torch::rand({70001}) < 0.5;
  auto bits = torch::zeros({packed_mask_bytes(70001)}, torch::kByte);
  cpu_.pack_mask({70001, mask.data_ptr(), bits.data_ptr()}, nullptr);
  const CudaCopy on_device(mask), packed(torch::zeros_like(bits)),
      unpacked(torch::zeros_like(mask));
  cuda_.pack_mask({70001, on_device.data(), packed.data()}, nullptr);
  cuda_.unpack_mask({70001, packed.data(), unpacked.data()}, nullptr);
  EXPECT_TRUE(same_bytes(packed.back(), bits));
  EXPECT_TRUE(same_bytes(unpacked.back(), mask));
}

}  // namespace
}  // namespace gradrecomp::kernels
