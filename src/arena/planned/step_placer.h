#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "arena/blocks/arena.h"
#include "arena/planned/address_plan.h"
#include "arena/planned/lifetimes.h"

namespace gradrecomp::arena {

/// Places the blocks of one step at a time at addresses planned before, so that together they take
/// as much memory as are ever alive at once.
///
/// A plan is only advice. A block that is not the next of the plan, or whose place is taken, gets
/// no address, and the next block is then compared with the same entry. So a block too many costs
/// its own bytes; from a block too few on, the step goes without its plan.
///
/// Threads: blocks are placed for the thread that began the step; any may free them or end it.
class StepPlacer {
 public:
  using StepId = std::uint64_t;
  static constexpr StepId kNone = 0;

  /// Over a range of `bytes` of its own, or of less: see AddressRange.
  explicit StepPlacer(std::size_t bytes) : arena_(bytes) {}

  /// Begins a step of this thread. kNone where another is in flight, or where there is neither a
  /// plan to follow nor one to be made.
  StepId begin(std::shared_ptr<SequenceAddresses> addresses);
  /// Ends a step. If it is `complete`, all its blocks that were to be freed have been. Returns
  /// whether it was logged and later ones are placed by that.
  bool end(StepId step, bool complete);

  /// A block of this thread's step at its planned address; null if it has none.
  void* allocate(std::size_t bytes);
  /// Notes a block that the thread got elsewhere, while its step is logged.
  void got_elsewhere(const void* block, std::size_t bytes);
  /// Notes that a block was freed, this arena's or not.
  void freed(const void* block);

  [[nodiscard]] Arena& arena() { return arena_; }
  [[nodiscard]] const Arena& arena() const { return arena_; }
  [[nodiscard]] std::mutex& mutex() { return mutex_; }

 private:
  [[nodiscard]] bool is_of_this_thread() const;

  Arena arena_;
  std::atomic<StepId> step_ = kNone;  ///< in flight
  std::atomic<bool> logs_ = false;
  std::mutex mutex_;  ///< of what follows
  StepId last_step_ = kNone;
  std::shared_ptr<SequenceAddresses> addresses_;
  std::shared_ptr<const AddressPlan> plan_;  ///< null while the step is logged
  std::size_t next_ = 0;                     ///< block of the plan
  std::size_t num_served_ = 0;
  LifetimeLog log_;
};

}  // namespace gradrecomp::arena
