#include "region/closed_step.h"

#include <torch/csrc/autograd/engine.h>

#include <utility>

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

ClosedStep::ClosedStep(std::shared_ptr<Session> session, std::int64_t number,
                       std::shared_ptr<profile::StepLog> log, Session::Sequence sequence,
                       std::vector<std::uint8_t> kept)
    : session_(std::move(session)),
      number_(number),
      log_(std::move(log)),
      sequence_(std::move(sequence)),
      kept_(std::move(kept)) {}

ClosedStep::~ClosedStep() {
  if (session_ && log_ && !was_asked_) session_->never_asked(sequence_, std::move(kept_));
}

void ClosedStep::backward_begins(tape::Tape& tape) {
  was_asked_ = true;
  if (session_) session_->asked(sequence_);
  if (log_) log_->backward_begins(tape);
  // The pass may release the graph, and with it the tape, before it ends.
  torch::autograd::Engine::get_default_engine().queue_callback(
      [step = shared_from_this(), held = tape.shared_from_this()] { step->backward_ends(*held); });
}

// Several threads may run backward through one step, so both hold its tape's lock.
void ClosedStep::backward_ends(tape::Tape& tape) {
  auto lock = tape.lock();
  tape.drop_cached();
  if (!session_) return;
  session_->replayed(number_, tape);
  if (!log_) return;
  log_->backward_ends(tape);
  auto graph = log_->graph_so_far(tape, sequence_.back());
  const Session::Profiled profiled{.sequence = sequence_,
                                   .variants = tape.variants(),
                                   .kept = kept_,
                                   .device = tape.device(),
                                   .has_one_mode = tape.has_one_mode(),
                                   .was_short_of_memory = tape.verification_was_short()};
  if (tape.has_handles()) {
    wait_for_another_pass(tape);
  } else {
    stop_logging(tape);
  }
  lock.unlock();
  session_->learn(profiled, std::move(graph));
}

void ClosedStep::wait_for_another_pass(tape::Tape& tape) {
  session_->at_next_step([step = weak_from_this(), asked = tape.weak_from_this()] {
    const auto held = asked.lock();
    const auto closed = step.lock();
    if (!held || !closed) return;
    const auto lock = held->lock();
    closed->stop_logging(*held);
  });
}

void ClosedStep::stop_logging(tape::Tape& tape) {
  if (!log_) return;
  log_->stop();
  log_ = nullptr;
  tape.observe(nullptr);
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
