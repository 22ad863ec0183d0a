// Byte for byte what LibTorch computes in training, on the device of the suite.
#include "aten_suite.h"
#include "norm_cases.h"

namespace gradrecomp::kernels {
namespace {

// What training computed, and the operands it leaves behind.
struct Trained {
  BatchNormCase operands;
  torch::Tensor y;
};

Trained train(const torch::Tensor& x, Layout layout, bool affine, torch::ScalarType parameters) {
  const auto options = x.options().dtype(parameters);
  const std::int64_t channels = x.size(1);
  torch::Tensor gamma, beta;
  if (affine) {
    gamma = torch::rand({channels}, options) + 0.3;
    beta = torch::randn({channels}, options);
  }
  const auto [y, mean, invstd] =
      at::native_batch_norm(x, gamma, beta, torch::zeros({channels}, options),
                            torch::ones({channels}, options), true, 0.1, 1e-5);
  return {{.x = x, .mean = mean, .invstd = invstd, .gamma = gamma, .beta = beta, .layout = layout},
          y};
}

// The first rounding that gives `expected`; nothing if none does.
std::optional<Rounding> fitting(const Table& kernels, Stream stream, const BatchNormCase& operands,
                                const torch::Tensor& expected) {
  for (const Rounding rounding : kRoundings) {
    auto y = torch::empty_like(expected);
    kernels.batch_norm_apply(operands.args(y, rounding), stream);
    if (same_bytes(y, expected)) return rounding;
  }
  return std::nullopt;
}

TEST_P(AtenSuite, BatchNormEqualsTrainingInSomeRounding) {
  for (const auto dtype : kDtypes) {
    for (const auto parameters : {torch::kFloat, dtype}) {
      for (const Layout layout : {Layout::channels_first, Layout::channels_last}) {
        for (const bool affine : {false, true}) {
          const auto x = on_device(images({3, 19, 9, 11}, dtype, layout));
          const auto trained = train(x, layout, affine, parameters);
          EXPECT_TRUE(fitting(kernels(), stream(), trained.operands, trained.y))
              << dtype << ", parameters " << parameters << ", layout " << static_cast<int>(layout)
              << ", affine " << affine;
        }
      }
    }
  }
}

TEST_P(AtenSuite, ResidualAndReluRoundLikeSeparateOperators) {
  for (const auto dtype : kDtypes) {
    for (const Layout layout : {Layout::channels_first, Layout::channels_last}) {
      for (const auto& sizes : kImageSizes) {
        if (sizes[0] * sizes[2] * sizes[3] < 2) continue;  // training wants two values a channel
        auto trained = train(on_device(images(sizes, dtype, layout)), layout, true, torch::kFloat);
        const auto rounding = fitting(kernels(), stream(), trained.operands, trained.y);
        ASSERT_TRUE(rounding) << dtype << sizes;
        trained.operands.residual = on_device(images(sizes, dtype, layout));
        trained.operands.relu = true;
        auto y = torch::empty_like(trained.y);
        kernels().batch_norm_apply(trained.operands.args(y, *rounding), stream());
        EXPECT_TRUE(same_bytes(y, (trained.y + trained.operands.residual).relu_()))
            << dtype << sizes;
      }
    }
  }
}

TEST_P(AtenSuite, BatchNormWorksInPlace) {
  for (const auto dtype : kDtypes) {
    const auto trained = train(on_device(images({2, 5, 40, 41}, dtype, Layout::channels_first)),
                               Layout::channels_first, true, torch::kFloat);
    const auto rounding = fitting(kernels(), stream(), trained.operands, trained.y);
    ASSERT_TRUE(rounding);
    auto y = trained.operands.x;
    kernels().batch_norm_apply(trained.operands.args(y, *rounding), stream());
    EXPECT_TRUE(same_bytes(y, trained.y)) << dtype;
  }
}

Dtype parameter_dtype(const torch::Tensor& gamma, const torch::Tensor& beta) {
  const auto& parameter = gamma.defined() ? gamma : beta;
  return parameter.defined() ? *dtype_of(parameter.scalar_type()) : Dtype::float32;
}

void expect_fitting_layer_norm(const Table& kernels, Stream stream, const torch::Tensor& x,
                               const torch::Tensor& gamma, const torch::Tensor& beta) {
  const std::int64_t columns = x.size(1);
  const auto [expected, mean, rstd] = at::native_layer_norm(x, {columns}, gamma, beta, 1e-5);
  LayerNorm args{.num_rows = x.size(0),
                 .num_columns = columns,
                 .dtype = *dtype_of(x.scalar_type()),
                 .parameter_dtype = parameter_dtype(gamma, beta),
                 .statistics_dtype = *dtype_of(mean.scalar_type()),
                 .x = data_of(x),
                 .mean = data_of(mean),
                 .rstd = data_of(rstd),
                 .gamma = data_of(gamma),
                 .beta = data_of(beta)};
  const auto y = torch::empty_like(x);
  args.y = y.data_ptr();
  std::int64_t fewest = x.numel();
  const auto fits_in = [&, &expected = expected](Rounding rounding) {  // named for Clang 14
    args.rounding = rounding;
    kernels.layer_norm_apply(args, stream);
    fewest = std::min(fewest, y.ne(expected).sum().item<std::int64_t>());
    return bool{same_bytes(y, expected)};
  };
  const bool fits = std::any_of(kRoundings.begin(), kRoundings.end(), fits_in);
  EXPECT_TRUE(fits) << "at least " << fewest << " of " << x.numel()
                    << " differ: " << x.scalar_type() << ", columns " << columns << ", gamma "
                    << gamma.defined() << ", beta " << beta.defined();
}

// With beta alone LibTorch 2.11's kernel of packs of four, as compiled for sm_90, rounds the
// product of the first of them by itself and fuses the others'. No formula has these bits, so such
// a norm is replayed by its call.
bool rounds_one_in_four(const torch::Tensor& x) { return x.is_cuda() && x.size(1) % 4 == 0; }

TEST_P(AtenSuite, LayerNormEqualsTrainingInSomeRounding) {
  for (const auto dtype : kDtypes) {
    for (const std::int64_t columns : {37, 64, 768, 5000}) {
      const auto x = on_device((torch::randn({40, columns}) * 2.5 + 0.7).to(dtype));
      // CUDA has no layer norm of parameters of another type.
      const auto options = x.options().dtype(x.is_cuda() ? dtype : torch::kFloat);
      const auto gamma = torch::rand({columns}, options) + 0.3;
      const auto beta = torch::randn({columns}, gamma.options());
      expect_fitting_layer_norm(kernels(), stream(), x, gamma, beta);
      expect_fitting_layer_norm(kernels(), stream(), x, gamma, {});
      if (!rounds_one_in_four(x)) expect_fitting_layer_norm(kernels(), stream(), x, {}, beta);
      // 16-bit statistics are rounded, and what was computed from them before is lost.
      if (dtype == torch::kFloat) expect_fitting_layer_norm(kernels(), stream(), x, {}, {});
    }
  }
}

}  // namespace
}  // namespace gradrecomp::kernels
