#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/world/dice.h"

namespace gradrecomp::fuzzing {

class InnerRegions;

/// What differs between the worlds of one program: 0 is the first of its kind.
struct Variant {
  std::uint64_t data = 0;   ///< the numbers in tensors
  std::uint64_t sizes = 0;  ///< their shapes
};

/// Sizes that the tensors of one program are made of.
struct Sizes {
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  std::int64_t length = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t features = 0;
  std::int64_t words = 0;
  std::int64_t heads = 0;
};

struct Named {
  std::string name;
  torch::Tensor tensor;
};

/// What a program finds when it begins: parameters, inputs, buffers and a generator of its own.
///
/// Guarantees: the same contents for the same seed and variant, every time.
class World {
 public:
  explicit World(std::uint64_t seed, const Variant& variant = {});
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Sizes sizes;
  torch::Tensor weight, bias, kernel, kernel_1d, table, channel_gain, channel_bias, gain, scale;
  std::vector<Named> leaves;   ///< that require a gradient; parameters and inputs
  std::vector<Named> buffers;  ///< written in place by the program
  std::vector<torch::Tensor> inputs;
  torch::Tensor running_mean, running_var, counter, memory;
  torch::Tensor words;  ///< int64 [batch, length], below sizes.words
  torch::Generator generator;
  std::vector<torch::Tensor> leaked;  ///< intermediates that left the region by a side door
  /// What the program's own checkpoints and regions are; null: they just run what they hold.
  InnerRegions* inner_regions = nullptr;
  bool has_inner = false;            ///< the program met one of them
  bool casts = false;                ///< automatically, inside
  bool uses_streams = false;         ///< other than the current one
  bool replays_in_backward = false;  ///< by tapes made in backward, of which no plan knows

  // --- of hostile programs ---

  std::size_t quirk = 0;            ///< a number below 4 by which they decide what to write
  std::vector<torch::Tensor> made;  ///< by factories, and open to raw writes
  /// Memory that LibTorch does not own.
  std::vector<std::shared_ptr<std::vector<float>>> borrowed;
  std::vector<torch::Tensor> held;  ///< so that their nodes live until backward
  bool writes_unseen = false;       ///< past the dispatcher and version counters
  bool may_refuse = false;          ///< such writes met what had been read: an error may say so

  /// Gives some of the leaves a gradient of zeros, others by every seed; none for 0.
  void give_gradients(std::uint64_t seed);

 private:
  torch::Tensor filled(at::IntArrayRef shape, double scale);
  torch::Tensor parameter(const std::string& name, at::IntArrayRef shape, double scale);
  torch::Tensor buffer(const std::string& name, torch::Tensor tensor);
  torch::Tensor input(at::IntArrayRef shape);
  torch::Tensor with_layout(at::IntArrayRef shape);

  Dice dice_;
  Dice numbers_;
};

}  // namespace gradrecomp::fuzzing
