#include "gradrecomp/models/resnet.h"

#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>

#include <string>
#include <utility>

#include "check.h"
#include "image_stem.h"

namespace gradrecomp::models {
namespace {

namespace nn = torch::nn;

struct ConvShape {
  std::int64_t in = 1;
  std::int64_t out = 1;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
};

/// The convolution keeps height and width, up to its stride; a batch norm follows as its bias.
nn::Conv2d make_conv(const ConvShape& shape) {
  nn::Conv2d conv(nn::Conv2dOptions(shape.in, shape.out, shape.kernel)
                      .stride(shape.stride)
                      .padding(shape.kernel / 2)
                      .bias(false));
  nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
  return conv;
}

std::vector<ConvShape> residual_branch(ResNetBlock block, const ConvShape& first) {
  const auto [in, width, kernel, stride] = first;
  if (block == ResNetBlock::basic) return {first, {width, width, kernel, 1}};
  return {{in, width, 1, 1}, {width, width, kernel, stride}, {width, 4 * width, 1, 1}};
}

torch::Tensor classify(nn::LinearImpl& fc, torch::Tensor x) {
  x = torch::adaptive_avg_pool2d(x, {1, 1});
  return fc.forward(x.flatten(1));
}

ResNet make_resnet(ResNetBlock block, std::array<std::int64_t, 4> num_blocks,
                   std::int64_t num_classes) {
  return ResNet(
      ResNetOptions{.block = block, .num_blocks = num_blocks, .num_classes = num_classes});
}

}  // namespace

/// A branch of convolutions, added to its input or to a projection of it where the shapes differ.
class ResNetImpl::Block : public nn::Module {
 public:
  explicit Block(const std::vector<ConvShape>& branch) {
    for (const ConvShape& shape : branch) {
      const auto number = std::to_string(convs_.size() + 1);
      convs_.emplace_back(register_module("conv" + number, make_conv(shape)));
      norms_.emplace_back(register_module("bn" + number, nn::BatchNorm2d(shape.out)));
    }
    std::int64_t stride = 1;
    for (const ConvShape& shape : branch) stride *= shape.stride;
    const auto in = branch.front().in;
    const auto out = branch.back().out;
    if (stride == 1 && in == out) return;
    downsample_ = register_module(
        "downsample", nn::Sequential(make_conv({in, out, 1, stride}), nn::BatchNorm2d(out)));
  }

  torch::Tensor forward(torch::Tensor x) {
    auto branch = x;
    for (std::size_t i = 0; i < convs_.size(); ++i) {
      if (i > 0) branch.relu_();
      branch = norms_[i]->forward(convs_[i]->forward(branch));
    }
    if (!downsample_.is_empty()) x = downsample_->forward(x);
    return branch.add_(x).relu_();
  }

 private:
  std::vector<nn::Conv2d> convs_;
  std::vector<nn::BatchNorm2d> norms_;
  nn::Sequential downsample_{nullptr};
};

ResNetImpl::ResNetImpl(const ResNetOptions& options) : nn::Module("ResNet") {
  const auto& [block, num_blocks, num_classes, width] = options;
  check_sizes("ResNet", {{"num_blocks[0]", num_blocks[0]},
                         {"num_blocks[1]", num_blocks[1]},
                         {"num_blocks[2]", num_blocks[2]},
                         {"num_blocks[3]", num_blocks[3]},
                         {"num_classes", num_classes},
                         {"width", width}});
  conv1_ = register_module("conv1", make_conv({3, width, 7, 2}));
  bn1_ = register_module("bn1", nn::BatchNorm2d(width));
  auto channels = width;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    nn::ModuleList blocks;
    for (std::int64_t b = 0; b < num_blocks[l]; ++b) {
      const std::int64_t stride = l > 0 && b == 0 ? 2 : 1;
      const auto branch = residual_branch(block, {channels, width << l, 3, stride});
      channels = branch.back().out;
      layers_[l].push_back(std::make_shared<Block>(branch));
      blocks->push_back(layers_[l].back());
    }
    register_module("layer" + std::to_string(l + 1), blocks);
  }
  fc_ = register_module("fc", nn::Linear(channels, num_classes));
}

std::vector<Stage> ResNetImpl::stages() {
  std::vector<Stage> stages;
  stages.push_back({"stem", [conv = conv1_.ptr(), norm = bn1_.ptr()](torch::Tensor x) {
                      return image_stem("ResNet", *conv, *norm, std::move(x));
                    }});
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    for (std::size_t b = 0; b < layers_[l].size(); ++b) {
      stages.push_back(
          {"layer" + std::to_string(l + 1) + "." + std::to_string(b),
           [block = layers_[l][b]](torch::Tensor x) { return block->forward(std::move(x)); }});
    }
  }
  stages.push_back(
      {"head", [fc = fc_.ptr()](torch::Tensor x) { return classify(*fc, std::move(x)); }});
  return stages;
}

torch::Tensor ResNetImpl::forward(torch::Tensor images) { return run(stages(), std::move(images)); }

ResNet resnet18(std::int64_t num_classes) {
  return make_resnet(ResNetBlock::basic, {2, 2, 2, 2}, num_classes);
}

ResNet resnet34(std::int64_t num_classes) {
  return make_resnet(ResNetBlock::basic, {3, 4, 6, 3}, num_classes);
}

ResNet resnet50(std::int64_t num_classes) {
  return make_resnet(ResNetBlock::bottleneck, {3, 4, 6, 3}, num_classes);
}

ResNet resnet101(std::int64_t num_classes) {
  return make_resnet(ResNetBlock::bottleneck, {3, 4, 23, 3}, num_classes);
}

ResNet resnet152(std::int64_t num_classes) {
  return make_resnet(ResNetBlock::bottleneck, {3, 8, 36, 3}, num_classes);
}

}  // namespace gradrecomp::models
