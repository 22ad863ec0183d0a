#include "gradrecomp/region.h"

#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include "gradrecomp/memory_meter.h"
#include "gradrecomp/report.h"
#include "plan/spelling.h"
#include "region/step.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {
namespace {

/// Why code that is to be a step of `session` runs plainly; null if it does not.
const char* reason_to_run_plainly(const Session* session) {
  if (!c10::GradMode::is_enabled()) return "gradients are off, so nothing is saved";
  const Step* around = Step::current();
  if (around == nullptr) return nullptr;
  if (around->session() != session) return "another region or checkpoint() around it covers it";
  return "a step of the same region around it covers it; if that is an OpenStep, close() it before "
         "the next";
}

OpenStep open_step(std::shared_ptr<Session> session) {
  return OpenStep(std::make_unique<Step>(std::move(session)));
}

}  // namespace

OpenStep::OpenStep(std::unique_ptr<Step> step) : step_(std::move(step)) {}
OpenStep::~OpenStep() { give_up(); }
OpenStep::OpenStep(OpenStep&& other) noexcept = default;
OpenStep& OpenStep::operator=(OpenStep&& other) noexcept {
  if (this == &other) return *this;
  give_up();
  step_ = std::move(other.step_);
  return *this;
}

void OpenStep::close() { close(false); }

void detail::close_returned(OpenStep& step) { step.close(true); }

void OpenStep::close(bool has_returned) {
  TORCH_CHECK(!step_ || Step::current() == step_.get(),
              "OpenStep::close: the step was opened on another thread, but must be closed on the "
              "same one. Run everything between on one thread.");
  if (const auto step = std::exchange(step_, nullptr)) step->close(has_returned);
}

// The thread that opened it still records into it.
void OpenStep::give_up() noexcept {
  if (Step::current() == step_.get()) {
    step_.reset();
  } else if (step_) {
    Step::leave_to_its_thread(std::move(step_));
  }
}

Region::Region(Options options) : session_(std::make_shared<Session>(std::move(options))) {
  install_cpu_counter();
}

Region::~Region() = default;
Region::Region(Region&& other) noexcept = default;
Region& Region::operator=(Region&& other) noexcept = default;

Session& Region::session() const {
  TORCH_CHECK(session_ != nullptr,
              "Region: this region has been moved from, so it cannot be used. Use the one that it "
              "was moved to.");
  return *session_;
}

OpenStep Region::open() {
  const char* reason = reason_to_run_plainly(&session());
  if (reason == nullptr) return open_step(session_);
  session().passed_over(reason);
  return OpenStep(nullptr);
}

bool Region::has_plan() const { return session().last_planned() != nullptr; }

plan::Plan Region::plan() const {
  const auto active = session().last_planned();
  TORCH_CHECK(active != nullptr,
              "Region::plan: the region has no plan, but must have one. Run a step and ",
              "its backward first.");
  return *active->plan;
}

plan::Graph Region::graph() const {
  const auto active = session().last_planned();
  TORCH_CHECK(active != nullptr,
              "Region::graph: the region has no profile, but must have one. Run a step ",
              "and its backward first.");
  return *active->graph;
}

Options Region::options() const { return session().options(); }

StepReport Region::last_step() const { return session().report(); }

std::int64_t Region::num_plans() const { return session().num_plans(); }

std::string Region::brief_report() const {
  const auto active = session().last_planned();
  const StepReport last = session().report();
  std::string text = active ? active->plan->brief_report() : session().why_no_plan();
  if (const auto recording = active ? active->recording_overhead : 0; recording >= 0.001) {
    text += "; recording costs " + plan::spelled_percent(recording) + " in seconds";
  }
  if (active && 1000 * last.tape_bytes >= active->plan->predicted_plain_peak_bytes) {
    text += "; the recording takes " + plan::spelled_bytes(last.tape_bytes) + " of heap";
  }
  if (!last.reason.empty() && !last.profiled) text += "; the last step: " + last.reason;
  if (last.num_unrecorded_calls > 0) {
    text += "; " + std::to_string(last.num_unrecorded_calls) +
            " of its calls ran unrecorded, as not all tensors were plain memory";
  }
  return text;
}

std::string Region::full_report() const {
  const auto active = session().last_planned();
  if (!active) return brief_report();
  return brief_report() + "\n" + stage_table(*active->graph, *active->plan);
}

void begin_stage(std::string_view name) {
  if (Step* step = Step::current()) step->begin_stage(name);
}

void note_write(const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.defined(),
                    "note_write: tensor is undefined, but must be the one that is written. Pass "
                    "that.");
  if (tape::Recorder* recorder = tape::Recorder::current()) recorder->note_write(tensor);
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

OpenStep detail::open_dropped() {
  return reason_to_run_plainly(nullptr) == nullptr ? open_step(nullptr) : OpenStep(nullptr);
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
