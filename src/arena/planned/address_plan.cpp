#include "arena/planned/address_plan.h"

#include <utility>

namespace gradrecomp::arena {
namespace {

constexpr int kMostLogs = 4;                 // of a sequence whose steps differ each time
constexpr std::size_t kMostBlocks = 20'000;  // placed in a second or so

}  // namespace

AddressPlan::AddressPlan(const Lifetimes& lifetimes) : placement_(place(lifetimes)) {
  for (const Lifetime& one : lifetimes) {
    block_bytes_.push_back(one.bytes);
    num_placed_ += one.ends() ? 1 : 0;
  }
}

std::shared_ptr<const AddressPlan> SequenceAddresses::plan() const {
  const std::lock_guard lock(mutex_);
  return plan_;
}

bool SequenceAddresses::wants_log() const {
  const std::lock_guard lock(mutex_);
  return plan_ == nullptr && num_logs_ < kMostLogs;
}

bool SequenceAddresses::logged(const Lifetimes& lifetimes) {
  std::shared_ptr<const AddressPlan> made;
  if (lifetimes.size() <= kMostBlocks) made = std::make_shared<const AddressPlan>(lifetimes);
  const std::lock_guard lock(mutex_);
  plan_ = std::move(made);
  num_logs_ = plan_ ? num_logs_ + 1 : kMostLogs;
  return plan_ != nullptr;
}

void SequenceAddresses::followed(const AddressPlan& plan, std::size_t num_served) {
  const bool fits = 4 * num_served >= 3 * plan.num_placed();
  const std::lock_guard lock(mutex_);
  if (!fits && plan_.get() == &plan) plan_ = nullptr;
}

}  // namespace gradrecomp::arena
