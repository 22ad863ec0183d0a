#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "profile/times/stream_clock.h"
#include "tape/op.h"

namespace gradrecomp::profile {

/// When ops, passes and replays of a profiled step ran on the streams of devices.
///
/// Asking for seconds waits for the device. Where nothing times its streams there are none.
/// Threads:  callers hold the lock of the step's log.
class StreamTimes {
 public:
  void op_begins() { op_start_ = clock_.now(); }
  /// Notes an op that has been enqueued since op_begins().
  void add_op(const tape::Op& op);
  /// Notes that the seconds of the op's replay were measured in another way.
  void replay_is_timed(std::size_t op) { ops_[op].is_replay_timed = true; }
  void pass_begins();
  /// Adds the seconds of the pass, without those of its replays. Call it for steps that ran on a
  /// device.
  void pass_ends();
  void replay_begins() { replays_.push_back({.begin = clock_.now()}); }
  void replay_ends();

  [[nodiscard]] bool has_passes() const { return pass_.end >= 0; }
  [[nodiscard]] double backward_seconds() const { return backward_seconds_; }
  /// Gives ops that ran on a stream the seconds that they took there.
  void assign_seconds(std::vector<plan::Op>& ops);

 private:
  /// Where a stream was when something began and when it ended; -1: on no stream.
  struct Span {
    std::int32_t begin = -1;
    std::int32_t end = -1;
    bool is_replay_timed = false;
  };

  double seconds_of(const Span& span) { return clock_.seconds_between(span.begin, span.end); }

  StreamClock clock_;
  std::vector<Span> ops_;
  Span pass_;
  std::vector<Span> replays_;  ///< within it
  std::int32_t op_start_ = -1;
  double backward_seconds_ = 0;
};

}  // namespace gradrecomp::profile
