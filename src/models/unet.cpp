#include "gradrecomp/models/unet.h"

#include <torch/nn/functional/padding.h>
#include <torch/nn/functional/upsampling.h>
#include <torch/nn/modules/batchnorm.h>

#include <string>
#include <utility>

#include "check.h"

namespace gradrecomp::models {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

constexpr std::int64_t kReduction = 16;  // four halvings

void check(const UNetOptions& options) {
  check_sizes("UNet", {{"num_channels", options.num_channels},
                       {"num_classes", options.num_classes},
                       {"width", options.width}});
}

void check_images(const torch::Tensor& images, std::int64_t num_channels) {
  TORCH_CHECK_VALUE(images.dim() == 4 && images.size(1) == num_channels,
                    "UNet: images is a tensor of shape ", images.sizes(), ", but must be [N, ",
                    num_channels, ", H, W]. Add the batch or color dimension.");
  TORCH_CHECK_VALUE(images.size(2) >= kReduction && images.size(3) >= kReduction,
                    "UNet: images is a tensor of shape ", images.sizes(),
                    ", but must be of at least 16 x 16 pixels. Pad or scale them.");
}

nn::Conv2d make_conv(std::int64_t in, std::int64_t out) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1).bias(false));
}

/// `x` with zeros around it where a halving has rounded down.
torch::Tensor padded_to(const torch::Tensor& x, const torch::Tensor& larger) {
  const auto rows = larger.size(2) - x.size(2);
  const auto columns = larger.size(3) - x.size(3);
  return F::pad(x,
                F::PadFuncOptions({columns / 2, columns - columns / 2, rows / 2, rows - rows / 2}));
}

/// Registers a module without a forward pass of its own, as the published names have it.
std::shared_ptr<nn::Module> add_level(nn::Module& parent, const std::string& name) {
  return parent.register_module(name, std::make_shared<nn::Module>("Sequential"));
}

}  // namespace

/// Two convolutions, each followed by a norm and a ReLU.
class UNetImpl::DoubleConv : public nn::Module {
 public:
  DoubleConv(std::int64_t in, std::int64_t middle, std::int64_t out) {
    const auto sequential = add_level(*this, "double_conv");
    conv0_ = sequential->register_module("0", make_conv(in, middle));
    norm0_ = sequential->register_module("1", nn::BatchNorm2d(middle));
    conv1_ = sequential->register_module("3", make_conv(middle, out));
    norm1_ = sequential->register_module("4", nn::BatchNorm2d(out));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = norm0_->forward(conv0_->forward(std::move(x))).relu_();
    return norm1_->forward(conv1_->forward(std::move(x))).relu_();
  }

 private:
  nn::Conv2d conv0_{nullptr};
  nn::BatchNorm2d norm0_{nullptr};
  nn::Conv2d conv1_{nullptr};
  nn::BatchNorm2d norm1_{nullptr};
};

/// Halves height and width, then convolves.
class UNetImpl::Down : public nn::Module {
 public:
  Down(std::int64_t in, std::int64_t out) {
    conv_ = add_level(*this, "maxpool_conv")
                ->register_module("1", std::make_shared<DoubleConv>(in, out, out));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    return conv_->forward(torch::max_pool2d(x, /*kernel_size=*/2));
  }

 private:
  std::shared_ptr<DoubleConv> conv_;
};

/// Doubles height and width, appends what skipped the levels below, and convolves.
class UNetImpl::Up : public nn::Module {
 public:
  Up(std::int64_t in, std::int64_t out, bool bilinear) {
    if (!bilinear) {
      up_ = register_module(
          "up", nn::ConvTranspose2d(nn::ConvTranspose2dOptions(in, in / 2, 2).stride(2)));
    }
    conv_ = register_module("conv", std::make_shared<DoubleConv>(in, bilinear ? in / 2 : out, out));
  }

  torch::Tensor forward(torch::Tensor x, const torch::Tensor& skipped) {
    x = up_.is_empty() ? interpolated(x) : up_->forward(x);
    return conv_->forward(torch::cat({skipped, padded_to(x, skipped)}, 1));
  }

 private:
  static torch::Tensor interpolated(const torch::Tensor& x) {
    return F::interpolate(x, F::InterpolateFuncOptions()
                                 .scale_factor(std::vector<double>{2, 2})
                                 .mode(torch::kBilinear)
                                 .align_corners(true));
  }

  nn::ConvTranspose2d up_{nullptr};
  std::shared_ptr<DoubleConv> conv_;
};

UNetImpl::UNetImpl(const UNetOptions& options) : nn::Module("UNet"), options_(options) {
  check(options);
  const std::int64_t factor = options.bilinear ? 2 : 1;
  auto channels = options.width;
  inc_ = register_module("inc",
                         std::make_shared<DoubleConv>(options.num_channels, channels, channels));
  for (std::size_t i = 0; i < downs_.size(); ++i) {
    const auto wider = 2 * channels / (i + 1 == downs_.size() ? factor : 1);
    downs_[i] =
        register_module("down" + std::to_string(i + 1), std::make_shared<Down>(channels, wider));
    channels *= 2;
  }
  for (std::size_t i = 0; i < ups_.size(); ++i) {
    const auto narrower = channels / 2 / (i + 1 == ups_.size() ? 1 : factor);
    ups_[i] = register_module("up" + std::to_string(i + 1),
                              std::make_shared<Up>(channels, narrower, options.bilinear));
    channels /= 2;
  }
  outc_ = add_level(*this, "outc")
              ->register_module("conv", nn::Conv2d(nn::Conv2dOptions(channels, options.num_classes,
                                                                     /*kernel_size=*/1)));
}

std::vector<Stage> UNetImpl::stages() {
  const auto skips = std::make_shared<std::vector<torch::Tensor>>();
  const auto kept = [skips](const torch::Tensor& x) {
    skips->push_back(x);
    return x;
  };
  std::vector<Stage> stages;
  stages.push_back({"inc", [=, inc = inc_, channels = options_.num_channels](torch::Tensor x) {
                      check_images(x, channels);
                      skips->clear();  // of a pass that an error has ended
                      return kept(inc->forward(std::move(x)));
                    }});
  for (std::size_t i = 0; i < downs_.size(); ++i) {
    const bool is_last = i + 1 == downs_.size();
    stages.push_back(
        {"down" + std::to_string(i + 1), [=, down = downs_[i]](const torch::Tensor& x) {
           return is_last ? down->forward(x) : kept(down->forward(x));
         }});
  }
  for (std::size_t i = 0; i < ups_.size(); ++i) {
    stages.push_back({"up" + std::to_string(i + 1), [=, up = ups_[i]](torch::Tensor x) {
                        const auto skipped = std::move(skips->back());
                        skips->pop_back();
                        return up->forward(std::move(x), skipped);
                      }});
  }
  stages.push_back(
      {"outc", [conv = outc_.ptr()](const torch::Tensor& x) { return conv->forward(x); }});
  return stages;
}

torch::Tensor UNetImpl::forward(torch::Tensor images) { return run(stages(), std::move(images)); }

UNet unet_carvana() { return UNet(UNetOptions{}); }

}  // namespace gradrecomp::models
