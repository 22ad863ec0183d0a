#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "arena/planned/lifetimes.h"
#include "arena/planned/placement.h"

namespace gradrecomp::arena {

/// The blocks that a step allocates, in order, and where each is to lie.
class AddressPlan {
 public:
  explicit AddressPlan(const Lifetimes& lifetimes);

  [[nodiscard]] std::size_t num_blocks() const { return block_bytes_.size(); }
  [[nodiscard]] std::size_t block_bytes(std::size_t block) const { return block_bytes_[block]; }
  /// None for blocks that outlive the step: others would have to keep out of their way for good.
  [[nodiscard]] std::optional<std::size_t> offset(std::size_t block) const {
    return placement_.offsets[block];
  }
  /// How many blocks have an offset.
  [[nodiscard]] std::size_t num_placed() const { return num_placed_; }

 private:
  std::vector<std::size_t> block_bytes_;
  Placement placement_;
  std::size_t num_placed_ = 0;
};

/// What is known of the blocks of one op sequence's steps: a step is logged, and later ones follow
/// what was planned from its log. Where they no longer fit it, another is logged, a few times.
///
/// Threads: safe to use from any.
class SequenceAddresses {
 public:
  /// Null until a step was logged.
  [[nodiscard]] std::shared_ptr<const AddressPlan> plan() const;
  [[nodiscard]] bool wants_log() const;
  /// Plans for the steps that come, from the blocks of one that was logged. Whether there is a
  /// plan.
  bool logged(const Lifetimes& lifetimes);
  /// Notes how many blocks of a step found their place free and themselves expected.
  void followed(const AddressPlan& plan, std::size_t num_served);

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const AddressPlan> plan_;
  int num_logs_ = 0;
};

}  // namespace gradrecomp::arena
