#include "step.h"

#include <ATen/SequenceNumber.h>
#include <c10/util/Exception.h>

#include <string>
#include <utility>

#include "closing.h"

namespace gradrecomp {
namespace {

thread_local Step* current_step = nullptr;

tape::Advice drop_everything() {
  static const auto nothing = std::make_shared<const std::vector<std::uint8_t>>();
  return {nullptr, nothing};
}

}  // namespace

Step::Step(std::shared_ptr<Session> session)
    : session_(std::move(session)),
      tape_(std::make_shared<tape::Tape>()),
      first_node_(at::sequence_number::peek()),
      outer_(current_step) {
  const tape::Advice advice = session_ ? session_->begin_step() : drop_everything();
  if (advice.keep == nullptr) begin_profile();
  name_plan(advice);
  recorder_ = std::make_unique<tape::Recorder>(
      tape_, advice,
      [this](std::size_t call, std::uint64_t hash) { return left_plan(call, hash); });
  if (session_) {
    if (session_->has_substitutes()) recorder_->take_apart();
    recorder_->before_op = [this] {
      const bool full = recorder_->window_bytes() > session_->options().window_bytes;
      if (recorder_->in_window_mode() && full) close_window();
    };
  }
  current_step = this;
}

Step::~Step() { current_step = outer_; }

Step* Step::current() noexcept { return current_step; }

void Step::begin_profile() {
  log_ = session_->open_log();
  tape_->observe(log_);
  if (!log_) return;
  // Autograd saves an op's inputs before the op is seen, also those of the very first.
  for (tape::ValueId id = 0; id < static_cast<tape::ValueId>(tape_->values().size()); ++id) {
    for (int i = 0; i < tape_->values()[id].num_handles; ++i) log_->saved(*tape_, id);
  }
}

void Step::name_plan(const tape::Advice& advice) {
  const bool planned = session_ != nullptr && advice.keep != nullptr;
  tape_->name_plan(planned ? session_->plan_name() : nullptr);
}

tape::Advice Step::left_plan(std::size_t call, std::uint64_t hash) {
  auto advice = session_->leave_plan(call, hash);
  name_plan(advice);
  // Only a log of the whole step makes a graph; a step that leaves later is profiled next time.
  if (advice.keep == nullptr && call == 0) begin_profile();
  return advice;
}

void Step::begin_stage(std::string_view name) {
  if (recorder_->in_window_mode()) close_window();
  if (log_) recorder_->begin_stage(log_->stage(std::string(name)));
  stage_range_.reset();
  stage_range_.emplace("GradRecomp: " + std::string(name));
}

void Step::close_window() {
  if (log_) log_->look_for_deaths(*tape_);
  const tape::OpId first = recorder_->window_first_op();
  const auto times = recorder_->close_window(session_->verifies());
  if (log_) log_->add_replay_times(first, times);
}

void Step::close(const std::vector<at::Tensor*>& outputs) {
  stage_range_.reset();
  if (recorder_->in_window_mode()) close_window();
  auto closed = std::make_shared<ClosedStep>();
  closed->session = session_;
  closed->tape = tape_;
  closed->log = log_;
  closed->sequence = recorder_->sequence();
  const bool planned = recorder_->follows_plan_to_the_end();
  recorder_.reset();
  if (log_) log_->look_for_deaths(*tape_);
  tape_->seal();
  if (session_) {
    session_->closed({.profiled = log_ != nullptr,
                      .followed_plan = planned,
                      .num_ops = static_cast<std::int64_t>(tape_->ops().size())});
    if (!planned && !log_) session_->missed(closed->sequence);
  }
  close_outputs(outputs, closed, first_node_);
}

// Several threads may run backward through one step, so both hold its tape's lock.
bool ClosedStep::backward_begins(int graph_task) {
  const auto lock = tape->lock();
  if (std::exchange(last_graph_task, graph_task) == graph_task) return false;
  if (log) log->backward_begins(*tape);
  return true;
}

void ClosedStep::backward_ends() {
  auto lock = tape->lock();
  tape->drop_cached();
  if (!session) return;
  session->replayed(*tape);
  const auto finished = std::exchange(log, nullptr);
  if (!finished) return;
  const std::uint64_t signature = sequence.empty() ? 0 : sequence.back();
  auto graph = finished->finish(*tape, signature);
  std::vector<tape::Variant> variants = tape->variants();
  const c10::Device device = tape->device();
  tape->observe(nullptr);
  lock.unlock();
  session->learn({sequence, std::move(variants), device}, std::move(graph));
}

namespace detail {

std::unique_ptr<Step, void (*)(Step*)> open_step(const std::shared_ptr<Session>& session) {
  return {new Step(session), [](Step* step) { delete step; }};
}

std::unique_ptr<Step, void (*)(Step*)> open_dropping_step() { return open_step(nullptr); }

void close_step(Step& step, const std::vector<at::Tensor*>& outputs) { step.close(outputs); }

}  // namespace detail
}  // namespace gradrecomp
