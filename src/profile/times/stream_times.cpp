#include "profile/times/stream_times.h"

namespace gradrecomp::profile {

void StreamTimes::add_op(const tape::Op& op) {
  ops_.push_back(op.stream() ? Span{op_start_, clock_.now_after(op_start_)} : Span{});
}

void StreamTimes::pass_begins() {
  pass_.begin = clock_.now();
  replays_.clear();
}

void StreamTimes::pass_ends() {
  pass_.end = clock_.now_after(pass_.begin);
  if (!has_passes()) return;
  backward_seconds_ += seconds_of(pass_);
  for (const Span& replay : replays_) backward_seconds_ -= seconds_of(replay);
}

void StreamTimes::replay_ends() {
  if (!replays_.empty()) replays_.back().end = clock_.now_after(replays_.back().begin);
}

void StreamTimes::assign_seconds(std::vector<plan::Op>& ops) {
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Span& span = ops_[i];
    if (span.end < 0) continue;
    const double seconds = seconds_of(span);
    if (!ops[i].is_part) ops[i].forward_seconds = seconds;
    if (!span.is_replay_timed) ops[i].replay_seconds = seconds;
  }
}

}  // namespace gradrecomp::profile
