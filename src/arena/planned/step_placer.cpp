#include "arena/planned/step_placer.h"

#include <new>
#include <utility>

namespace gradrecomp::arena {
namespace {

// The last that this thread began.
constinit thread_local StepPlacer::StepId step_of_thread = StepPlacer::kNone;

}  // namespace

bool StepPlacer::is_of_this_thread() const {
  return step_of_thread != kNone && step_of_thread == step_;
}

StepPlacer::StepId StepPlacer::begin(std::shared_ptr<SequenceAddresses> addresses) {
  const std::lock_guard lock(mutex_);
  if (step_ != kNone) return kNone;
  plan_ = addresses->plan();
  if (!plan_ && !addresses->wants_log()) return kNone;
  addresses_ = std::move(addresses);
  next_ = num_served_ = 0;
  log_ = {};
  logs_ = plan_ == nullptr;
  step_ = step_of_thread = ++last_step_;
  return last_step_;
}

bool StepPlacer::end(StepId step, bool complete) {
  std::shared_ptr<SequenceAddresses> addresses;
  std::shared_ptr<const AddressPlan> plan;
  LifetimeLog log;
  std::size_t num_served = 0;
  bool was_logged = false;
  {
    const std::lock_guard lock(mutex_);
    if (step == kNone || step != step_) return false;
    step_ = kNone;
    was_logged = logs_.exchange(false);
    addresses = std::exchange(addresses_, nullptr);
    plan = std::exchange(plan_, nullptr);
    log = std::exchange(log_, {});
    num_served = num_served_;
  }
  if (complete && plan) addresses->followed(*plan, num_served);
  return complete && was_logged && addresses->logged(log.lifetimes());
}

void* StepPlacer::allocate(std::size_t bytes) {
  if (!is_of_this_thread()) return nullptr;
  const std::lock_guard lock(mutex_);
  if (!is_of_this_thread() || !plan_) return nullptr;
  if (next_ == plan_->num_blocks() || plan_->block_bytes(next_) != bytes) return nullptr;
  const auto offset = plan_->offset(next_++);
  void* block = offset ? arena_.allocate_at(*offset, bytes) : nullptr;
  num_served_ += block != nullptr ? 1 : 0;
  return block;
}

void StepPlacer::got_elsewhere(const void* block, std::size_t bytes) {
  if (!logs_ || !is_of_this_thread()) return;
  const std::lock_guard lock(mutex_);
  if (!logs_ || !is_of_this_thread()) return;
  try {
    log_.allocated(block, bytes);
  } catch (const std::bad_alloc&) {
    logs_ = false;  // the step goes on, and a later one is logged
    log_ = {};
  }
}

void StepPlacer::freed(const void* block) {
  if (!logs_) return;
  const std::lock_guard lock(mutex_);
  if (logs_) log_.freed(block);
}

}  // namespace gradrecomp::arena
