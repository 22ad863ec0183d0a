#include "measure/profiled_step.h"

#include <cstdint>

#include "gradrecomp/region.h"
#include "measure/training_step.h"

namespace gradrecomp::program {

plan::SavedGraph profile_step(Workload& workload, const ProfileOptions& how, Progress& progress) {
  const auto& options = workload.options();
  progress.show("plain steps to warm up");
  for (std::int64_t i = 0; i < num_warm_up_steps(workload.device()); ++i) {
    reset_gradients(workload.parameters(), how.gradients);
    run_training_step(workload, nullptr, options.seed);
  }
  progress.show("profiling a step");
  Region region({.policy = "keep_all", .substitutes = how.substitutes});
  reset_gradients(workload.parameters(), how.gradients);
  run_training_step(workload, &region, options.seed);
  progress.clear();
  return {region.graph(), {workload.description(), options.dtype, options.device}};
}

}  // namespace gradrecomp::program
