#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "gradrecomp/export.h"
#include "gradrecomp/models/stage.h"

namespace gradrecomp::models {

struct FnoOptions {
  std::int64_t in_channels = 1;
  std::int64_t out_channels = 1;
  std::int64_t hidden_channels = 64;
  std::int64_t num_layers = 4;
  std::int64_t num_modes = 16;  ///< lowest frequencies that a layer mixes, along each dimension
  bool operator==(const FnoOptions&) const = default;
};

/// A Fourier neural operator of two dimensions, with the architecture, initialization and names of
/// the `FNO` of the neuraloperator library under its defaults: each layer mixes channels in
/// frequency space, beside a linear skip, and pixel by pixel after that.
///
/// Throws:     c10::ValueError if an option is not positive, or `num_modes` is odd.
/// Source:     Li et al., Fourier neural operator for parametric partial differential equations,
///             2021.
class GRADRECOMP_API FnoImpl : public torch::nn::Module {
 public:
  explicit FnoImpl(const FnoOptions& options = {});

  /// Shapes:     fields [N, in_channels, H, W] -> [N, out_channels, H, W]; H and W >= num_modes
  /// Throws:     c10::ValueError if the fields have another number of dimensions or channels, or
  ///             are smaller.
  torch::Tensor forward(torch::Tensor fields);

  /// The forward pass as "lifting", "fno_blocks.0", "fno_blocks.1", ..., "projection".
  std::vector<Stage> stages();

 private:
  class ChannelMlp;
  class Block;

  FnoOptions options_;
  std::shared_ptr<ChannelMlp> lifting_;
  std::vector<std::shared_ptr<Block>> blocks_;
  std::shared_ptr<ChannelMlp> projection_;
};
TORCH_MODULE(Fno);

}  // namespace gradrecomp::models
