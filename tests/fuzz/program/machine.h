#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "fuzz/program/program.h"
#include "fuzz/world/dice.h"
#include "fuzz/world/world.h"

namespace gradrecomp::fuzzing {

/// Runs the steps of a program on a pool of tensors.
///
/// A step draws what it does and which tensors it takes from its own seed and from the shapes in
/// the pool, so a program stays a program when steps are taken out of it. A step that throws is
/// skipped, in the plain run and in the wrapped one alike; errors() says which did.
class Machine {
 public:
  Machine(const Program& program, World& world);

  /// Runs all steps and returns the outputs of the program.
  std::vector<torch::Tensor> run();

  // --- for operations ---

  [[nodiscard]] World& world() { return world_; }
  [[nodiscard]] const Sizes& sizes() const { return world_.sizes; }
  [[nodiscard]] Dice& dice() { return dice_; }

  /// Some floating point tensor with at least `min_dim` dimensions.
  torch::Tensor pick(std::int64_t min_dim = 0);
  /// Some tensor in float32.
  torch::Tensor pick_float(std::int64_t min_dim = 0);
  /// Some tensor in float32, cut or repeated to `shape`.
  torch::Tensor pick_shaped(at::IntArrayRef shape);
  /// Another tensor of `tensor`'s shape and dtype.
  torch::Tensor pick_like(const torch::Tensor& tensor);
  /// A tensor to look at through a view, which leaves it writable if it was.
  torch::Tensor pick_for_view(std::int64_t min_dim = 0);
  /// A tensor that autograd lets the program write in place, undefined if there is none.
  torch::Tensor pick_writable();

  void push(torch::Tensor tensor);
  /// Adds a tensor that no backward function has saved, so that it may be written in place.
  void push_writable(torch::Tensor tensor);
  /// Forbids in-place writes to the memory of `tensor`.
  void freeze(const torch::Tensor& tensor);
  /// Runs the next `count` steps.
  void run_next(std::int64_t count);
  /// Runs the next `count` steps inside checkpoint().
  void run_next_in_checkpoint(std::int64_t count);
  /// Runs the next `count` steps in a region.
  void run_next_in_region(std::int64_t count);
  /// Runs the next `count` steps on a stream of their own, where the device has streams.
  void run_next_on_side_stream(std::int64_t count);
  /// Leaves out the next `count` steps.
  void skip_next(std::int64_t count);
  /// Adds a word to the listing.
  void say(const std::string& word);

  [[nodiscard]] const std::string& listing() const { return listing_; }
  [[nodiscard]] const std::string& errors() const { return errors_; }
  /// The same errors in their own words.
  [[nodiscard]] const std::string& caught() const { return caught_; }
  bool keeps_listing = false;

 private:
  torch::Tensor take(std::int64_t min_dim);
  void run_step();
  using Inside = std::function<std::vector<torch::Tensor>()>;
  void run_next_wrapped(std::int64_t count,
                        const std::function<std::vector<torch::Tensor>(const Inside&)>& wrap);
  std::vector<torch::Tensor> choose_outputs();

  const Program& program_;
  World& world_;
  Dice dice_;
  std::vector<torch::Tensor> pool_;
  std::unordered_set<const c10::StorageImpl*> writable_;
  std::size_t position_ = 0;
  std::string line_;
  std::string listing_;
  std::string errors_;
  std::string caught_;
};

}  // namespace gradrecomp::fuzzing
