#include "region/closed_step.h"

#include <torch/csrc/autograd/engine.h>

#include <utility>

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

ClosedStep::ClosedStep(std::shared_ptr<Session> session, std::shared_ptr<profile::StepLog> log,
                       Session::Sequence sequence, std::vector<std::uint8_t> kept)
    : session_(std::move(session)),
      log_(std::move(log)),
      sequence_(std::move(sequence)),
      kept_(std::move(kept)) {}

ClosedStep::~ClosedStep() {
  if (session_ && log_) session_->never_asked(sequence_, std::move(kept_));
}

void ClosedStep::backward_begins(tape::Tape& tape) {
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
  session_->replayed(tape);
  const auto finished = std::exchange(log_, nullptr);
  if (!finished) return;
  auto graph = finished->finish(tape, sequence_.back());
  const Session::Profiled profiled{.sequence = sequence_,
                                   .variants = tape.variants(),
                                   .kept = kept_,
                                   .device = tape.device(),
                                   .has_one_mode = tape.has_one_mode(),
                                   .was_short_of_memory = tape.verification_was_short()};
  tape.observe(nullptr);
  lock.unlock();
  session_->learn(profiled, std::move(graph));
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
