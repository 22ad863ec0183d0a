#include "gradrecomp/models/fno.h"

#include <torch/fft.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/modules/conv.h>

#include <cmath>
#include <string>
#include <utility>

#include "check.h"

namespace gradrecomp::models {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using torch::indexing::Ellipsis;
using torch::indexing::Slice;

constexpr std::int64_t kRatio = 2;      // channels within lifting and projection, over hidden ones
constexpr std::int64_t kReduction = 2;  // hidden channels over those within a layer's perceptron
constexpr const char* kNorm = "forward";

void check(const FnoOptions& options) {
  check_sizes("Fno", {{"in_channels", options.in_channels},
                      {"out_channels", options.out_channels},
                      {"hidden_channels", options.hidden_channels},
                      {"num_layers", options.num_layers},
                      {"num_modes", options.num_modes}});
  TORCH_CHECK_VALUE(options.num_modes % 2 == 0, "Fno: num_modes is ", options.num_modes,
                    ", but must be even. Half of them are negative frequencies.");
}

void check_fields(const torch::Tensor& fields, const FnoOptions& options) {
  TORCH_CHECK_VALUE(fields.dim() == 4 && fields.size(1) == options.in_channels,
                    "Fno: fields is a tensor of shape ", fields.sizes(), ", but must be [N, ",
                    options.in_channels, ", H, W]. Add the batch or channel dimension.");
  TORCH_CHECK_VALUE(fields.size(2) >= options.num_modes && fields.size(3) >= options.num_modes,
                    "Fno: fields is a tensor of shape ", fields.sizes(),
                    ", but must have at least as many points as num_modes, ", options.num_modes,
                    ", along H and W. Lower num_modes.");
}

/// Of each point along dimension `dim` of `like`, where it lies between 0 and 1, as one more
/// channel.
torch::Tensor coordinate(const torch::Tensor& like, std::int64_t dim) {
  const auto size = like.size(dim);
  std::vector<std::int64_t> shape(4, 1);
  shape[dim] = size;
  auto all = like.sizes().vec();
  all[1] = 1;
  const auto points = torch::linspace(0, 1, size + 1, like.options()).narrow(0, 0, size);
  return points.view(shape).expand(all);
}

torch::Tensor with_coordinates(const torch::Tensor& fields) {
  return torch::cat({fields, coordinate(fields, 2), coordinate(fields, 3)}, 1);
}

nn::Conv1d make_mixer(std::int64_t in, std::int64_t out, bool bias) {
  return nn::Conv1d(nn::Conv1dOptions(in, out, /*kernel_size=*/1).bias(bias));
}

/// Registers a module without a forward pass of its own, as the published names have it.
std::shared_ptr<nn::Module> level(nn::Module& parent, const std::string& name) {
  const auto children = parent.named_children();
  if (const auto* known = children.find(name)) return *known;
  return parent.register_module(name, std::make_shared<nn::Module>("ModuleList"));
}

/// Mixes the channels of the lowest frequencies, those along the rows shifted to the middle.
class SpectralConv : public nn::Module {
 public:
  SpectralConv(std::int64_t channels, std::int64_t num_modes) : num_modes_(num_modes) {
    const double deviation = std::sqrt(1.0 / static_cast<double>(channels));
    const auto shape = {channels, channels, num_modes, num_modes / 2 + 1};
    weight_ = level(*this, "weight")
                  ->register_parameter(
                      "tensor", torch::empty(shape, torch::kComplexFloat).normal_(0, deviation));
    bias_ = register_parameter("bias", torch::randn({channels, 1, 1}) * deviation);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const auto height = x.size(2);
    const auto modes = torch::fft::fftshift(torch::fft::rfft2(x, {}, {-2, -1}, kNorm), {-2});
    const Slice rows(height / 2 - num_modes_ / 2, height / 2 + num_modes_ / 2);
    const Slice columns(0, num_modes_ / 2 + 1);
    const auto mixed =
        torch::einsum("bixy,ioxy->boxy", {modes.index({Ellipsis, rows, columns}), weight_});
    auto all = torch::zeros(modes.sizes(), modes.options());
    all.index_put_({Ellipsis, rows, columns}, mixed);
    all = torch::fft::fftshift(all, {-2});  // as published, though not the inverse of an odd height
    return torch::fft::irfft2(all, x.sizes().slice(2), {-2, -1}, kNorm) + bias_;
  }

 private:
  std::int64_t num_modes_;
  torch::Tensor weight_;
  torch::Tensor bias_;
};

}  // namespace

/// A perceptron of two layers over the channels of each point.
class FnoImpl::ChannelMlp : public nn::Module {
 public:
  ChannelMlp(std::int64_t in, std::int64_t hidden, std::int64_t out) {
    const auto layers = level(*this, "fcs");
    first_ = layers->register_module("0", make_mixer(in, hidden, /*bias=*/true));
    second_ = layers->register_module("1", make_mixer(hidden, out, /*bias=*/true));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const auto y = second_->forward(F::gelu(first_->forward(x.flatten(2))));
    return y.unflatten(2, x.sizes().slice(2));
  }

 private:
  nn::Conv1d first_{nullptr};
  nn::Conv1d second_{nullptr};
};

/// One Fourier layer. The published names keep all layers' parts of one kind together.
class FnoImpl::Block {
 public:
  Block(nn::Module& all, const FnoOptions& options, std::int64_t index)
      : is_last_(index + 1 == options.num_layers) {
    const auto channels = options.hidden_channels;
    const auto name = std::to_string(index);
    conv_ =
        level(all, "convs")
            ->register_module(name, std::make_shared<SpectralConv>(channels, options.num_modes));
    skip_ = level(*level(all, "fno_skips"), name)
                ->register_module("conv", make_mixer(channels, channels, /*bias=*/false));
    mlp_ = level(all, "channel_mlp")
               ->register_module(
                   name, std::make_shared<ChannelMlp>(channels, channels / kReduction, channels));
    gate_ = level(*level(all, "channel_mlp_skips"), name)
                ->register_parameter("weight", torch::ones({1, channels, 1, 1}));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const auto skipped = skip_->forward(x.flatten(2)).view_as(x);
    const auto gated = gate_ * x;
    const auto mixed = activated(conv_->forward(x) + skipped);
    return activated(mlp_->forward(mixed) + gated);
  }

 private:
  [[nodiscard]] torch::Tensor activated(const torch::Tensor& x) const {
    return is_last_ ? x : F::gelu(x);
  }

  bool is_last_;
  std::shared_ptr<SpectralConv> conv_;
  nn::Conv1d skip_{nullptr};
  std::shared_ptr<ChannelMlp> mlp_;
  torch::Tensor gate_;
};

FnoImpl::FnoImpl(const FnoOptions& options) : nn::Module("Fno"), options_(options) {
  check(options);
  constexpr std::int64_t kNumCoordinates = 2;
  const auto hidden = options.hidden_channels;
  const auto all = level(*this, "fno_blocks");
  for (std::int64_t i = 0; i < options.num_layers; ++i) {
    blocks_.push_back(std::make_shared<Block>(*all, options, i));
  }
  lifting_ = register_module(
      "lifting",
      std::make_shared<ChannelMlp>(options.in_channels + kNumCoordinates, kRatio * hidden, hidden));
  projection_ = register_module(
      "projection", std::make_shared<ChannelMlp>(hidden, kRatio * hidden, options.out_channels));
}

std::vector<Stage> FnoImpl::stages() {
  std::vector<Stage> stages;
  stages.push_back({"lifting", [lifting = lifting_, options = options_](const torch::Tensor& x) {
                      check_fields(x, options);
                      return lifting->forward(with_coordinates(x));
                    }});
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    stages.push_back({"fno_blocks." + std::to_string(i),
                      [block = blocks_[i]](const torch::Tensor& x) { return block->forward(x); }});
  }
  stages.push_back({"projection", [projection = projection_](const torch::Tensor& x) {
                      return projection->forward(x);
                    }});
  return stages;
}

torch::Tensor FnoImpl::forward(torch::Tensor fields) { return run(stages(), std::move(fields)); }

}  // namespace gradrecomp::models
