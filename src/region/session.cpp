#include "session.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "gradrecomp/plan/signature.h"
#include "gradrecomp/plan/solver.h"
#include "gradrecomp/profile/host_link.h"

namespace gradrecomp {

namespace {

// A step may do what the planner's model has no events for, such as a backward pass inside the
// region. It then goes on under the safe plan, which is right for any step.
bool can_be_planned(const plan::Graph& graph) {
  try {
    plan::validate(graph);
    return true;
  } catch (const std::invalid_argument& error) {
    TORCH_WARN("GradRecomp cannot plan this op sequence and drops stage by stage instead: ",
               error.what());
    return false;
  }
}

tape::SweepPlans sweep_plans_of(const plan::Plan& plan) {
  if (plan.sweeps.empty()) return nullptr;
  std::vector<tape::SweepPlan> plans;
  for (const plan::Sweep& sweep : plan.sweeps) plans.push_back({sweep.target, sweep.cached});
  return std::make_shared<const std::vector<tape::SweepPlan>>(std::move(plans));
}

tape::Offloads offloads_of(const plan::Plan& plan) {
  if (plan.offloads.empty()) return nullptr;
  std::vector<tape::Offload> offloads;
  for (const auto& [value, leaves_after, returns_at] : plan.offloads) {
    offloads.push_back({value, leaves_after, returns_at});
  }
  return std::make_shared<const tape::OffloadPlan>(std::move(offloads));
}

}  // namespace

Session::Session(Options options) : options_(std::move(options)) { validate(options_); }

std::int64_t Session::num_plans() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(sequences_.size());
}

std::shared_ptr<const std::string> Session::plan_name() const {
  const std::lock_guard lock(mutex_);
  return active_ ? active_->name : nullptr;
}

bool Session::due_for_verification() const {
  return options_.verify == Verify::every_n_steps &&
         num_steps_ % options_.verify_interval_steps == 0;
}

tape::Advice Session::begin_step() {
  const std::lock_guard lock(mutex_);
  report_ = {};
  const bool profile = due_for_verification() || std::exchange(profile_next_, false);
  ++num_steps_;
  return active_ && !profile ? active_->advice : tape::Advice{};
}

tape::Advice Session::leave_plan(std::size_t call, std::uint64_t hash) {
  const std::lock_guard lock(mutex_);
  for (const auto& known : sequences_) {
    const auto& sequence = *known->advice.sequence;
    // The hash runs over all calls so far, so equal hashes mean equal beginnings.
    if (call < sequence.size() && sequence[call] == hash) {
      activate(known);
      return active_->advice;
    }
  }
  return {};
}

std::shared_ptr<profile::StepLog> Session::open_log() {
  const std::lock_guard lock(mutex_);
  if (!open_log_.expired()) return nullptr;
  auto log = profile::StepLog::begin();
  open_log_ = log;
  return log;
}

void Session::closed(const StepReport& step) {
  const std::lock_guard lock(mutex_);
  report_ = step;
}

void Session::replayed(const tape::Tape& tape) {
  const std::lock_guard lock(mutex_);
  report_.num_replayed_ops = tape.num_replayed_ops();
  report_.num_substituted_ops = tape.num_substituted_ops();
  report_.replay_seconds = tape.replay_seconds();
  report_.offloaded_bytes = tape.offloaded_bytes();
}

void Session::missed(const Sequence& sequence) {
  const std::lock_guard lock(mutex_);
  for (const auto& known : sequences_) {
    if (*known->advice.sequence == sequence) {
      activate(known);
      return;
    }
  }
  if (++num_misses_ <= kMaxMissesInRow) profile_next_ = true;
}

void Session::learn(const Profiled& profiled, plan::Graph graph) {
  const Sequence& sequence = profiled.sequence;
  if (!can_be_planned(graph)) return;
  auto planned = std::make_shared<PlannedSequence>();
  planned->graph = std::move(graph);
  planned->plan = make_plan(planned->graph, profiled.device);
  planned->name = std::make_shared<const std::string>(planned->plan.brief_report());
  auto keep = planned->plan.keep;
  for (std::size_t i = 0; i < keep.size(); ++i) {
    if (planned->graph.values[i].must_keep) keep[i] = tape::kKeepAsSource;
  }
  planned->advice.sequence = std::make_shared<const Sequence>(sequence);
  planned->advice.keep = std::make_shared<const std::vector<std::uint8_t>>(std::move(keep));
  planned->advice.sweeps = sweep_plans_of(planned->plan);
  planned->advice.offloads = offloads_of(planned->plan);
  planned->advice.variants = std::make_shared<const std::vector<tape::Variant>>(profiled.variants);

  const std::lock_guard lock(mutex_);
  num_misses_ = 0;
  std::erase_if(sequences_, [&](const auto& known) { return *known->advice.sequence == sequence; });
  if (std::ssize(sequences_) == options_.max_plans) sequences_.erase(sequences_.begin());
  activate(std::move(planned));
}

// The loops above end when they call this, so it may change what they run over.
void Session::activate(std::shared_ptr<const PlannedSequence> known) {
  std::erase(sequences_, known);
  sequences_.push_back(known);
  active_ = std::move(known);
}

plan::Plan Session::make_plan(const plan::Graph& graph, c10::Device device) {
  if (options_.plan && fits(*options_.plan, graph)) return given_plan(graph);
  plan::Request request;
  request.cost = options_.cost;
  request.selection = options_.selection;
  if (options_.offload) request.host_link = profile::measured_host_link(device);
  if (!options_.policy.empty()) {
    request.policy = options_.policy;
  } else if (options_.max_peak_bytes) {
    request.max_peak_bytes = options_.max_peak_bytes;
  } else {
    request.max_overhead = options_.max_overhead.value_or(0.05);
  }
  return plan::make_plan(graph, request);
}

bool Session::fits(const plan::Plan& given, const plan::Graph& graph) {
  if (given.signature == graph.signature) return true;
  if (!warned_of_signature_.exchange(true)) {
    TORCH_WARN("GradRecomp plans by the budget, as the given plan is for the op sequence ",
               plan::signature_text(given.signature), " and this one is ",
               plan::signature_text(graph.signature), ".");
  }
  return false;
}

plan::Plan Session::given_plan(const plan::Graph& graph) const {
  try {
    return plan::predict(graph, *options_.plan);
  } catch (const std::invalid_argument& error) {
    C10_THROW_ERROR(ValueError, "Session::learn: Options::plan does not fit its op sequence: " +
                                    std::string(error.what()));
  }
}

}  // namespace gradrecomp
