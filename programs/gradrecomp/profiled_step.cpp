#include "profiled_step.h"

#include <cstdint>
#include <limits>

#include "gradrecomp/region/region.h"
#include "training_step.h"

namespace gradrecomp::program {

plan::SavedGraph profile_step(Workload& workload, Gradients gradients, Progress& progress) {
  const auto& options = workload.options();
  progress.show("plain steps to warm up");
  for (std::int64_t i = 0; i < num_warm_up_steps(workload.device()); ++i) {
    reset_gradients(workload.parameters(), gradients);
    run_training_step(workload, nullptr, options.seed);
  }
  progress.show("profiling a step");
  // A window that ends by its bytes may part an in-place op from what it overwrites, which then has
  // to be kept. At another batch size it ends elsewhere, and the two graphs differ.
  Region region({.policy = "keep_all", .window_bytes = std::numeric_limits<std::int64_t>::max()});
  reset_gradients(workload.parameters(), gradients);
  run_training_step(workload, &region, options.seed);
  progress.clear();
  return {region.graph(), {workload.description(), options.dtype, options.device}};
}

}  // namespace gradrecomp::program
