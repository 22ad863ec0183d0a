#pragma once

/// What most programs need: regions, checkpoint(), CheckpointedSequential, and what measures them.
/// The planner's own headers are in gradrecomp/plan/, the bundled models' in gradrecomp/models/.
#include "gradrecomp/checkpoint.h"               // IWYU pragma: export
#include "gradrecomp/checkpointed_sequential.h"  // IWYU pragma: export
#include "gradrecomp/memory_meter.h"             // IWYU pragma: export
#include "gradrecomp/options.h"                  // IWYU pragma: export
#include "gradrecomp/region.h"                   // IWYU pragma: export
#include "gradrecomp/report.h"                   // IWYU pragma: export
#include "gradrecomp/version.h"                  // IWYU pragma: export
