// CUDA kernels and their twins on the CPU, with random arguments of every kind that they take.
#include <deque>

#include "cuda_memory.h"
#include "cuda_twins.h"
#include "draw.h"
#include "norm_cases.h"

namespace gradrecomp::kernels {
namespace {

constexpr std::uint64_t kSeeds = 400;

// As it is up to what kernels do not promise: sign and payload of a NaN.
torch::Tensor promised(const torch::Tensor& x) {
  return x.masked_fill(x.isnan(), std::numeric_limits<double>::quiet_NaN());
}

void expect_same(const torch::Tensor& cuda, const torch::Tensor& cpu, bool has_relu) {
  const auto compared = [&](const torch::Tensor& x) {
    return promised(has_relu ? without_negative_zeros(x) : x);
  };
  EXPECT_TRUE(same_bytes(compared(cuda), compared(cpu)));
}

// A result of a kernel: what it reads, if it works in place, or memory full of something else.
class Result {
 public:
  Result(Draw& draw, const torch::Tensor& x, const CudaCopy& on_device)
      : in_place_(draw.coin()), other_(torch::full_like(x, 7), draw.skipped()), x_(on_device) {}

  [[nodiscard]] void* data() const { return copy().data(); }
  [[nodiscard]] torch::Tensor back() const { return copy().back(); }

 private:
  [[nodiscard]] const CudaCopy& copy() const { return in_place_ ? x_ : other_; }

  bool in_place_;
  CudaCopy other_;
  const CudaCopy& x_;
};

BatchNormCase random_batch_norm(Draw& draw) {
  const auto dtype = draw.one_of(kDtypes);
  const std::vector<torch::ScalarType> coefficients{torch::kFloat, dtype};
  const auto statistics = draw.one_of(coefficients), parameters = draw.one_of(coefficients);
  const auto layout = draw.one_of(std::vector{Layout::channels_first, Layout::channels_last});
  const std::vector<std::int64_t> sizes{draw.between(0, 4), draw.size(8), draw.between(0, 9),
                                        draw.between(1, 9)};
  const auto image = [&] {
    const auto x = draw.numbers(sizes, dtype);
    return layout == Layout::channels_last ? x.contiguous(torch::MemoryFormat::ChannelsLast) : x;
  };
  return {.x = image(),
          .mean = draw.numbers({sizes[1]}, statistics),
          .invstd = draw.numbers({sizes[1]}, statistics),
          .gamma = draw.perhaps(draw.numbers({sizes[1]}, parameters)),
          .beta = draw.perhaps(draw.numbers({sizes[1]}, parameters)),
          .residual = draw.perhaps(image()),
          .layout = layout,
          .relu = draw.coin()};
}

TEST_F(CudaTwinTest, RandomBatchNorm) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const auto operands = random_batch_norm(draw);
    auto y = torch::empty_like(operands.x);
    auto args = operands.args(y, draw.one_of(kRoundings));
    cpu_.batch_norm_apply(args, nullptr);
    const CudaCopy x(operands.x, draw.skipped()), residual(operands.residual, draw.skipped()),
        mean(operands.mean, draw.skipped()), invstd(operands.invstd, draw.skipped()),
        gamma(operands.gamma, draw.skipped()), beta(operands.beta, draw.skipped());
    const Result result(draw, operands.x, x);
    args.x = x.data(), args.residual = residual.data(), args.y = result.data();
    args.mean = mean.data(), args.invstd = invstd.data();
    args.gamma = gamma.data(), args.beta = beta.data();
    cuda_.batch_norm_apply(args, nullptr);
    expect_same(result.back(), y, args.relu);
  }
}

struct LayerNormCase {
  torch::Tensor x, mean, rstd, gamma, beta;
};

LayerNormCase random_layer_norm(Draw& draw) {
  const auto dtype = draw.one_of(kDtypes);
  const std::vector<torch::ScalarType> coefficients{torch::kFloat, dtype};
  const auto statistics = draw.one_of(coefficients), parameters = draw.one_of(coefficients);
  const std::int64_t rows = draw.between(0, 40), columns = draw.size(11);
  return {.x = draw.numbers({rows, columns}, dtype),
          .mean = draw.numbers({rows}, statistics),
          .rstd = draw.numbers({rows}, statistics),
          .gamma = draw.perhaps(draw.numbers({columns}, parameters)),
          .beta = draw.perhaps(draw.numbers({columns}, parameters))};
}

LayerNorm arguments_of(const LayerNormCase& operands, const torch::Tensor& y, Rounding rounding) {
  const auto& weight = operands.gamma.defined() ? operands.gamma : operands.beta;
  return {.num_rows = operands.x.size(0),
          .num_columns = operands.x.size(1),
          .dtype = *dtype_of(operands.x.scalar_type()),
          .parameter_dtype = weight.defined() ? *dtype_of(weight.scalar_type()) : Dtype::float32,
          .statistics_dtype = *dtype_of(operands.mean.scalar_type()),
          .x = data_of(operands.x),
          .mean = data_of(operands.mean),
          .rstd = data_of(operands.rstd),
          .gamma = data_of(operands.gamma),
          .beta = data_of(operands.beta),
          .y = y.data_ptr(),
          .rounding = rounding};
}

TEST_F(CudaTwinTest, RandomLayerNorm) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const auto operands = random_layer_norm(draw);
    const auto y = torch::empty_like(operands.x);
    auto args = arguments_of(operands, y, draw.one_of(kRoundings));
    cpu_.layer_norm_apply(args, nullptr);
    const CudaCopy x(operands.x, draw.skipped()), mean(operands.mean, draw.skipped()),
        rstd(operands.rstd, draw.skipped()), gamma(operands.gamma, draw.skipped()),
        beta(operands.beta, draw.skipped());
    const Result result(draw, operands.x, x);
    args.x = x.data(), args.y = result.data(), args.mean = mean.data(), args.rstd = rstd.data();
    args.gamma = gamma.data(), args.beta = beta.data();
    cuda_.layer_norm_apply(args, nullptr);
    expect_same(result.back(), y, false);
  }
}

const std::vector kStepKinds{StepKind::relu,       StepKind::add,        StepKind::mul,
                             StepKind::add_scalar, StepKind::mul_scalar, StepKind::div_scalar,
                             StepKind::mask};

// Steps, with their operands on the CPU or on the device.
class RandomSteps {
 public:
  RandomSteps(Draw& draw, std::int64_t size, torch::ScalarType dtype) {
    const std::int64_t num_steps = draw.between(0, kMaxSteps);
    for (std::int64_t i = 0; i < num_steps; ++i) {
      const StepKind kind = draw.one_of(kStepKinds);
      operands_.push_back(operand(draw, kind, size, dtype));
      copies_.emplace_back(operands_.back(), draw.skipped());
      // Never 0, by which a quotient may be a NaN, whose bits are the processor's.
      const float scalar = 0.1F * static_cast<float>(draw.between(-30, 30)) + 0.05F;
      on_cpu_.push_back({kind, data_of(operands_.back()), scalar});
      on_device_.push_back({kind, copies_.back().data(), scalar});
    }
  }

  [[nodiscard]] const std::vector<Step>& on_cpu() const { return on_cpu_; }
  [[nodiscard]] const std::vector<Step>& on_device() const { return on_device_; }
  [[nodiscard]] bool have_relu() const {
    return std::any_of(on_cpu_.begin(), on_cpu_.end(),
                       [](const Step& step) { return step.kind == StepKind::relu; });
  }

 private:
  // Undefined if such a step takes none.
  static torch::Tensor operand(Draw& draw, StepKind kind, std::int64_t size,
                               torch::ScalarType dtype) {
    if (kind == StepKind::mask) return torch::rand({size}) < 0.5;
    const bool reads = kind == StepKind::add || kind == StepKind::mul;
    return reads ? draw.numbers({size}, dtype) : torch::Tensor();
  }

  std::vector<torch::Tensor> operands_;
  std::deque<CudaCopy> copies_;
  std::vector<Step> on_cpu_, on_device_;
};

TEST_F(CudaTwinTest, RandomPointwiseChain) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const std::int64_t size = draw.size(13);
    const auto dtype = draw.one_of(kDtypes);
    const auto x = draw.numbers({size}, dtype), y = torch::empty_like(x);
    const RandomSteps steps(draw, size, dtype);
    cpu_.apply_chain({size, *dtype_of(dtype), data_of(x), y.data_ptr(), steps.on_cpu()}, nullptr);
    const CudaCopy on_device(x, draw.skipped());
    const Result result(draw, x, on_device);
    cuda_.apply_chain({size, *dtype_of(dtype), on_device.data(), result.data(), steps.on_device()},
                      nullptr);
    expect_same(result.back(), y, steps.have_relu());
  }
}

TEST_F(CudaTwinTest, RandomMasks) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const std::int64_t size = draw.size(13);
    constexpr torch::ScalarType kTypes[] = {torch::kBool, torch::kHalf, torch::kInt, torch::kLong};
    const auto mask = (torch::rand({size}) < 0.5).to(kTypes[draw.between(0, 3)]);
    const std::int64_t width = mask.element_size();
    const auto bits = torch::zeros({packed_mask_bytes(size)}, torch::kByte);
    cpu_.pack_mask({size, data_of(mask), bits.data_ptr(), width}, nullptr);
    const CudaCopy on_device(mask, draw.skipped()),
        packed(torch::full_like(bits, 255), draw.skipped()),
        unpacked(torch::zeros_like(mask), draw.skipped());
    cuda_.pack_mask({size, on_device.data(), packed.data(), width}, nullptr);
    const std::uint64_t one = mask.scalar_type() == torch::kHalf ? 0x3C00 : 1;
    cuda_.unpack_mask({size, packed.data(), unpacked.data(), width, one}, nullptr);
    EXPECT_TRUE(same_bytes(packed.back(), bits));
    EXPECT_TRUE(same_bytes(unpacked.back(), mask));
  }
}

TEST_F(CudaTwinTest, RandomRoundings) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const std::int64_t size = draw.size(13);
    const auto numbers = torch::randn({size});
    const auto rounded = torch::zeros({size}, torch::kShort);
    const auto words = [](void* pointer) { return static_cast<std::uint16_t*>(pointer); };
    cpu_.round_floats({size, numbers.const_data_ptr<float>(), words(rounded.data_ptr())}, nullptr);
    const CudaCopy on_device(numbers, draw.skipped()),
        packed(torch::full_like(rounded, 7), draw.skipped()),
        widened(torch::zeros_like(numbers), draw.skipped());
    cuda_.round_floats({size, static_cast<const float*>(on_device.data()), words(packed.data())},
                       nullptr);
    cuda_.widen_floats({size, words(packed.data()), static_cast<float*>(widened.data())}, nullptr);
    EXPECT_TRUE(same_bytes(packed.back(), rounded));
    const auto back = torch::zeros_like(numbers);
    cpu_.widen_floats({size, words(rounded.data_ptr()), back.mutable_data_ptr<float>()}, nullptr);
    EXPECT_TRUE(same_bytes(widened.back(), back));
  }
}

Pooling random_pooling(Draw& draw) {
  Pooling p{.num_images = draw.between(1, 3),
            .num_channels = draw.size(5) + 1,
            .kernel_height = draw.between(1, 16),
            .kernel_width = draw.between(1, 16),
            .stride_height = draw.between(1, 4),
            .stride_width = draw.between(1, 4),
            .dilation_height = draw.between(1, 3),
            .dilation_width = draw.between(1, 3),
            .layout = draw.one_of(std::vector{Layout::channels_first, Layout::channels_last})};
  p.padding_height = draw.between(0, p.kernel_height / 2);
  p.padding_width = draw.between(0, p.kernel_width / 2);
  p.input_height = p.dilation_height * (p.kernel_height - 1) + draw.between(1, 9);
  p.input_width = p.dilation_width * (p.kernel_width - 1) + draw.between(1, 9);
  return p;
}

// The indices that LibTorch makes; `p` gets the sizes of its output.
torch::Tensor pooled_indices(Pooling& p, bool ceil_mode) {
  auto x = torch::randn({p.num_images, p.num_channels, p.input_height, p.input_width});
  if (p.layout == Layout::channels_last) x = x.contiguous(torch::MemoryFormat::ChannelsLast);
  const auto indices = std::get<1>(at::max_pool2d_with_indices(
      x, {p.kernel_height, p.kernel_width}, {p.stride_height, p.stride_width},
      {p.padding_height, p.padding_width}, {p.dilation_height, p.dilation_width}, ceil_mode));
  p.output_height = indices.size(2);
  p.output_width = indices.size(3);
  return indices;
}

TEST_F(CudaTwinTest, RandomPoolingIndices) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    Pooling pooling = random_pooling(draw);
    const auto indices = pooled_indices(pooling, draw.coin());
    const auto offsets = torch::zeros({indices.numel()}, torch::kByte);
    cpu_.pack_indices({pooling, indices.data_ptr<std::int64_t>(), offsets.data_ptr<std::uint8_t>()},
                      nullptr);
    const CudaCopy on_device(indices, draw.skipped()),
        packed(torch::zeros_like(offsets), draw.skipped()),
        unpacked(torch::zeros_like(indices), draw.skipped());
    auto* packed_data = static_cast<std::uint8_t*>(packed.data());
    cuda_.pack_indices({pooling, static_cast<const std::int64_t*>(on_device.data()), packed_data},
                       nullptr);
    cuda_.unpack_indices({pooling, packed_data, static_cast<std::int64_t*>(unpacked.data())},
                         nullptr);
    EXPECT_TRUE(same_bytes(packed.back(), offsets));
    EXPECT_TRUE(same_bytes(unpacked.back(), indices));
  }
}

}  // namespace
}  // namespace gradrecomp::kernels
