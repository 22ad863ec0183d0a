#pragma once

#include <cstdint>
#include <optional>

#include "gradrecomp/plan/host_link.h"
#include "gradrecomp/plan/plan.h"
#include "gradrecomp/plan/policy.h"
#include "gradrecomp/plan/selection.h"

namespace gradrecomp::plan {

/// What a plan is asked for: one budget, or one fixed policy.
struct Request {
  /// Least peak whose replays cost at most this ratio of the plain step; 0.05 is a good start. On
  /// several devices: the least sum of their peaks, for the replays of all together. Under
  /// CostModel::flops even 0 saves much, as normalisations and activations count nothing there.
  std::optional<double> max_overhead = std::nullopt;
  /// Least overhead whose activation peak is at most this, on each device.
  std::optional<std::int64_t> max_peak_bytes = std::nullopt;
  /// What max_overhead counts, and what is kept low under max_peak_bytes.
  CostModel cost = CostModel::seconds;
  /// A fixed policy instead of a budget.
  std::optional<Policy> policy = std::nullopt;
  /// Values decided beforehand, under every policy.
  Selection selection = {};
  /// The link by which kept values may go to host memory, where a budget is set; none: they may
  /// not. Seconds that wait for it count as overhead in seconds; a budget in FLOPs admits none. On
  /// several devices only values of the main one go there, where the budget is about it alone.
  std::optional<HostLink> host_link = std::nullopt;
  /// Bytes of float32 that are rounded to bfloat16 and back in a second. If set, a budget may be
  /// met by rounding what is kept, so that gradients differ from plain's; not together with a host
  /// link. Under CostModel::flops rounding counts nothing. On several devices as with a host link.
  std::optional<double> bytes_rounded_per_second = std::nullopt;
  /// How long to search where no program finds the best plan and the bound leaves room for better
  /// ones: 1 is about a second for 5% and two for 20%, 0 does not search. Counted in moves, so that
  /// plans do not depend on the machine. More hardly ever makes a plan worse. At most 1000.
  double effort = 1;
  bool operator==(const Request&) const = default;
};

/// What a front is asked for.
struct FrontRequest {
  /// The cost that rises along the front.
  CostModel cost = CostModel::seconds;
  /// Values decided beforehand.
  Selection selection = {};
  /// Also plans that replay ops more than once and go below what one replay of each reaches; takes
  /// about ten times as long.
  bool nested = true;
  /// As in a request; for the whole front.
  double effort = 1;
  bool operator==(const FrontRequest&) const = default;
};

}  // namespace gradrecomp::plan
