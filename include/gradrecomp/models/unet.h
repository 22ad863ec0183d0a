#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/pimpl.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "gradrecomp/export.h"
#include "gradrecomp/models/stage.h"

namespace gradrecomp::models {

struct UNetOptions {
  std::int64_t num_channels = 3;  ///< of the images
  std::int64_t num_classes = 2;   ///< of a pixel
  std::int64_t width = 64;        ///< channels at full size; each of four levels doubles them
  bool bilinear = false;          ///< scales up by interpolation, not by transposed convolutions
  bool operator==(const UNetOptions&) const = default;
};

/// A U-Net that says the class of each pixel, with the architecture, initialization and names of
/// milesial's Pytorch-UNet, which PyTorch Hub offers as `unet_carvana`.
///
/// Throws:     c10::ValueError if an option is not positive.
/// Source:     Ronneberger et al., U-Net: convolutional networks for biomedical image segmentation,
///             2015; normalised, and padded to keep the size.
class GRADRECOMP_API UNetImpl : public torch::nn::Module {
 public:
  explicit UNetImpl(const UNetOptions& options = {});

  /// Shapes:     images [N, num_channels, H, W] -> logits [N, num_classes, H, W]; H, W >= 16
  /// Throws:     c10::ValueError if the images have another number of dimensions or channels, or
  ///             are smaller.
  torch::Tensor forward(torch::Tensor images);

  /// The forward pass as "inc", "down1", ..., "down4", "up1", ..., "up4", "outc".
  ///
  /// What skips levels is passed on beside the results. So run all of them in order, one pass at a
  /// time; another call gives stages for another thread.
  std::vector<Stage> stages();

 private:
  class DoubleConv;
  class Down;
  class Up;

  UNetOptions options_;
  std::shared_ptr<DoubleConv> inc_;
  std::array<std::shared_ptr<Down>, 4> downs_;
  std::array<std::shared_ptr<Up>, 4> ups_;
  torch::nn::Conv2d outc_{nullptr};
};
TORCH_MODULE(UNet);

/// The published U-Net for car images, of 31,037,698 parameters.
GRADRECOMP_API UNet unet_carvana();

}  // namespace gradrecomp::models
