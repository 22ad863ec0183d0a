#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arena/planned/address_plan.h"
#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/host_link.h"
#include "gradrecomp/plan/plan.h"
#include "gradrecomp/version.h"
#include "tape/record/recording_plan.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

/// The op sequence of a step: a hash for each call, over all calls up to it.
using Sequence = std::vector<std::uint64_t>;

/// Everything known of one op sequence.
struct KnownSequence {
  tape::RecordingPlan recording_plan;        ///< shared with the recorders that follow it
  std::shared_ptr<const plan::Graph> graph;  ///< null if there is nothing to plan
  std::shared_ptr<const plan::Plan> plan;    ///< null: none was made, or it was forgotten
  c10::Device device = c10::kCPU;            ///< that its ops ran on
  std::shared_ptr<const std::string> name;   ///< of the plan, for messages
  std::string why_unplanned;    ///< why it goes by what its first step kept; empty if by a plan
  bool is_provisional = false;  ///< it goes so until a backward pass comes
  /// What recording costs as a ratio to the plain step, as far as it has been measured.
  double recording_overhead = 0;
  /// The link to the host as steps under this plan's predecessor have found it; none: as it is
  /// measured alone.
  std::optional<plan::HostLink> host_link;
  bool records_nothing = false;  ///< most of its steps run as plain training does
  /// Of its steps' blocks; null without a plan, and for devices.
  std::shared_ptr<arena::SequenceAddresses> addresses;

  [[nodiscard]] std::uint64_t signature() const { return recording_plan.sequence->back(); }
  [[nodiscard]] bool is_to_be_planned() const { return why_unplanned.empty(); }
};

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
