#pragma once

#include <memory>

#include "arena/planned/address_plan.h"
#include "arena/planned/step_placer.h"

namespace gradrecomp::arena {

/// A step of this thread whose large blocks are placed by what is known of its op sequence, or
/// logged for the steps that come. Not placed while another step of the process is.
class PlacedStep {
 public:
  explicit PlacedStep(std::shared_ptr<SequenceAddresses> addresses);
  /// Ends the step; unless it was complete() before, nothing is learnt from it.
  ~PlacedStep();
  PlacedStep(const PlacedStep&) = delete;
  PlacedStep& operator=(const PlacedStep&) = delete;

  /// Ends the step, whose blocks have been freed but for those that outlive it. Whether later steps
  /// are placed by its log.
  bool complete();

 private:
  StepPlacer::StepId id_;
};

}  // namespace gradrecomp::arena
