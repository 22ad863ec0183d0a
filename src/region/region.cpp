#include "gradrecomp/region/region.h"

#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include "gradrecomp/profile/memory_meter.h"
#include "gradrecomp/region/stage_table.h"
#include "step.h"

namespace gradrecomp {

Region::Region(Options options) : session_(std::make_shared<Session>(std::move(options))) {
  profile::install_cpu_counter();
}

bool Region::has_plan() const { return session_->active() != nullptr; }

const plan::Plan& Region::plan() const {
  TORCH_CHECK(has_plan(),
              "Region::plan: the region has no plan, but must have one. Run a step and ",
              "its backward first.");
  return session_->active()->plan;
}

const plan::Graph& Region::graph() const {
  TORCH_CHECK(has_plan(),
              "Region::graph: the region has no profile, but must have one. Run a step ",
              "and its backward first.");
  return session_->active()->graph;
}

const Options& Region::options() const { return session_->options(); }

const StepReport& Region::last_step() const { return session_->report(); }

std::int64_t Region::num_plans() const { return session_->num_plans(); }

std::string Region::brief_report() const {
  return has_plan() ? plan().brief_report() : "no plan yet: the next step is profiled";
}

std::string Region::full_report() const {
  if (!has_plan()) return brief_report();
  return brief_report() + "\n" + stage_table(graph(), plan());
}

void begin_stage(std::string_view name) {
  if (Step* step = Step::current()) step->begin_stage(name);
}

namespace detail {

bool region_wanted() { return c10::GradMode::is_enabled() && Step::current() == nullptr; }

}  // namespace detail
}  // namespace gradrecomp
