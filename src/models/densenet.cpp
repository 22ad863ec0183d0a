#include "gradrecomp/models/densenet.h"

#include <torch/nn/init.h>

#include <string>
#include <utility>

#include "check.h"
#include "image_stem.h"

namespace gradrecomp::models {
namespace {

namespace nn = torch::nn;

nn::Conv2d make_conv(std::int64_t in, std::int64_t out, std::int64_t kernel,
                     std::int64_t stride = 1) {
  nn::Conv2d conv(
      nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
  nn::init::kaiming_normal_(conv->weight);
  return conv;
}

void check(const DenseNetOptions& options) {
  check_sizes("DenseNet", {{"growth_rate", options.growth_rate},
                           {"num_layers[0]", options.num_layers[0]},
                           {"num_layers[1]", options.num_layers[1]},
                           {"num_layers[2]", options.num_layers[2]},
                           {"num_layers[3]", options.num_layers[3]},
                           {"stem_width", options.stem_width},
                           {"bottleneck_ratio", options.bottleneck_ratio},
                           {"num_classes", options.num_classes}});
}

torch::Tensor classify(nn::BatchNorm2dImpl& norm, nn::LinearImpl& classifier, torch::Tensor x) {
  x = norm.forward(x).relu_();
  return classifier.forward(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
}

}  // namespace

/// Two convolutions, each after a norm and a ReLU. Appends what they make to their input.
class DenseNetImpl::Layer : public nn::Module {
 public:
  Layer(std::int64_t channels, const DenseNetOptions& options) {
    const auto width = options.bottleneck_ratio * options.growth_rate;
    norm1_ = register_module("norm1", nn::BatchNorm2d(channels));
    conv1_ = register_module("conv1", make_conv(channels, width, 1));
    norm2_ = register_module("norm2", nn::BatchNorm2d(width));
    conv2_ = register_module("conv2", make_conv(width, options.growth_rate, 3));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    auto made = conv1_->forward(norm1_->forward(x).relu_());
    made = conv2_->forward(norm2_->forward(made).relu_());
    return torch::cat({x, made}, 1);
  }

 private:
  nn::BatchNorm2d norm1_{nullptr};
  nn::Conv2d conv1_{nullptr};
  nn::BatchNorm2d norm2_{nullptr};
  nn::Conv2d conv2_{nullptr};
};

/// Halves channels, height and width.
class DenseNetImpl::Transition : public nn::Module {
 public:
  explicit Transition(std::int64_t channels) {
    norm_ = register_module("norm", nn::BatchNorm2d(channels));
    conv_ = register_module("conv", make_conv(channels, channels / 2, 1));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = conv_->forward(norm_->forward(x).relu_());
    return torch::avg_pool2d(x, /*kernel_size=*/2, /*stride=*/2);
  }

 private:
  nn::BatchNorm2d norm_{nullptr};
  nn::Conv2d conv_{nullptr};
};

DenseNetImpl::DenseNetImpl(const DenseNetOptions& options) : nn::Module("DenseNet") {
  check(options);
  auto features = register_module("features", std::make_shared<nn::Module>("Features"));
  auto channels = options.stem_width;
  conv0_ = features->register_module("conv0", make_conv(3, channels, 7, 2));
  norm0_ = features->register_module("norm0", nn::BatchNorm2d(channels));
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    channels = add_block(*features, b, channels, options);
  }
  norm5_ = features->register_module("norm5", nn::BatchNorm2d(channels));
  classifier_ = register_module("classifier", nn::Linear(channels, options.num_classes));
  nn::init::zeros_(classifier_->bias);
}

/// Adds a dense block and, unless it is the last, the transition after it. Returns the channels
/// that they hand on.
std::int64_t DenseNetImpl::add_block(nn::Module& features, std::size_t number,
                                     std::int64_t channels, const DenseNetOptions& options) {
  const auto name = std::to_string(number + 1);
  auto block =
      features.register_module("denseblock" + name, std::make_shared<nn::Module>("DenseBlock"));
  for (std::int64_t l = 0; l < options.num_layers[number]; ++l) {
    blocks_[number].push_back(block->register_module("denselayer" + std::to_string(l + 1),
                                                     std::make_shared<Layer>(channels, options)));
    channels += options.growth_rate;
  }
  if (number + 1 == blocks_.size()) return channels;
  transitions_.push_back(
      features.register_module("transition" + name, std::make_shared<Transition>(channels)));
  return channels / 2;
}

std::vector<Stage> DenseNetImpl::stages() {
  std::vector<Stage> stages;
  stages.push_back({"stem", [conv = conv0_.ptr(), norm = norm0_.ptr()](torch::Tensor x) {
                      return image_stem("DenseNet", *conv, *norm, std::move(x));
                    }});
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const auto number = std::to_string(b + 1);
    for (std::size_t l = 0; l < blocks_[b].size(); ++l) {
      stages.push_back(
          {"denseblock" + number + ".denselayer" + std::to_string(l + 1),
           [layer = blocks_[b][l]](const torch::Tensor& x) { return layer->forward(x); }});
    }
    if (b == transitions_.size()) break;
    stages.push_back({"transition" + number, [transition = transitions_[b]](torch::Tensor x) {
                        return transition->forward(std::move(x));
                      }});
  }
  stages.push_back({"head", [norm = norm5_.ptr(), classifier = classifier_.ptr()](torch::Tensor x) {
                      return classify(*norm, *classifier, std::move(x));
                    }});
  return stages;
}

torch::Tensor DenseNetImpl::forward(torch::Tensor images) {
  return run(stages(), std::move(images));
}

DenseNet densenet121(std::int64_t num_classes) {
  return DenseNet(DenseNetOptions{.num_classes = num_classes});
}

DenseNet densenet201(std::int64_t num_classes) {
  return DenseNet(DenseNetOptions{.num_layers = {6, 12, 48, 32}, .num_classes = num_classes});
}

}  // namespace gradrecomp::models
