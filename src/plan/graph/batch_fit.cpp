#include "gradrecomp/plan/batch_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "plan/error.h"
#include "transient_bytes.h"

namespace gradrecomp::plan {
namespace {

[[noreturn]] void fail(const std::string& name, const std::string& at_large,
                       const std::string& at_small) {
  raise({"BatchFit", name + " at the larger batch", at_large, at_small + " as at the smaller one",
         "Record both with the same model, so that only the batch size differs"});
}

template <class T>
void expect_same(const std::string& name, const T& small, const T& large) {
  if (small != large) fail(name, spelled(large), spelled(small));
}

std::string listed(const std::vector<Index>& indices) {
  std::string text = "[";
  for (const Index i : indices) text += (text.size() > 1 ? ", " : "") + std::to_string(i);
  return text + "]";
}

void expect_same_value(Index v, const Value& small, const Value& large) {
  const std::string of = " of value " + std::to_string(v);
  expect_same("producer" + of, small.producer, large.producer);
  expect_same("overwrites" + of, small.overwrites, large.overwrites);
  expect_same("overwritten_by" + of, small.overwritten_by, large.overwritten_by);
  expect_same("must_keep" + of, small.must_keep, large.must_keep);
  expect_same("snapshot" + of, small.snapshot, large.snapshot);
  expect_same("saved" + of, small.saved, large.saved);
  expect_same("device" + of, small.device, large.device);
}

void expect_same_op(std::size_t i, const Op& small, const Op& large) {
  const std::string of = " of op " + std::to_string(i);
  expect_same("name" + of, small.name, large.name);
  expect_same("stage" + of, small.stage, large.stage);
  expect_same("inputs" + of, listed(small.inputs), listed(large.inputs));
  expect_same("outputs" + of, listed(small.outputs), listed(large.outputs));
}

void expect_same_structure(const Graph& small, const Graph& large) {
  expect_same("num stages", small.stages.size(), large.stages.size());
  for (std::size_t s = 0; s < small.stages.size(); ++s) {
    expect_same("name of stage " + std::to_string(s), small.stages[s].name, large.stages[s].name);
  }
  expect_same("num devices", num_devices(small), num_devices(large));
  for (std::size_t d = 0; d < small.devices.size(); ++d) {
    expect_same("device " + std::to_string(d), small.devices[d], large.devices[d]);
  }
  const std::size_t num_ops = std::min(small.ops.size(), large.ops.size());
  for (std::size_t i = 0; i < num_ops; ++i) expect_same_op(i, small.ops[i], large.ops[i]);
  expect_same("num ops", small.ops.size(), large.ops.size());
  expect_same("num values", small.values.size(), large.values.size());
  for (std::size_t v = 0; v < small.values.size(); ++v) {
    expect_same_value(static_cast<Index>(v), small.values[v], large.values[v]);
  }
}

/// A run of outside events as a single one of `device`.
Event merged(const std::vector<Event>& events, Index device) {
  Event sum;
  sum.device = device;
  for (const Event& event : events) {
    if (event.device != device) continue;
    sum.peak_bytes = std::max(sum.peak_bytes, sum.net_bytes + event.peak_bytes);
    sum.net_bytes += event.net_bytes;
    sum.peak_bytes = std::max(sum.peak_bytes, sum.net_bytes);
  }
  return sum;
}

/// A run of outside events as one of each device.
std::vector<Event> merged_by_device(const std::vector<Event>& events, Index num_devices) {
  std::vector<Event> sums;
  for (Index device = 0; device < num_devices; ++device) sums.push_back(merged(events, device));
  return sums;
}

/// Takes the outside events from position `t` on.
std::vector<Event> take_outside(const std::vector<Event>& events, std::size_t& t) {
  std::vector<Event> taken;
  while (t < events.size() && events[t].kind == EventKind::outside) taken.push_back(events[t++]);
  return taken;
}

std::string described(const std::vector<Event>& events, std::size_t t) {
  if (t >= events.size()) return "the end";
  constexpr const char* kNames[] = {"run_op", "save",   "death",   "outside",
                                    "seal",   "demand", "release", "pass_end"};
  return kNames[static_cast<int>(events[t].kind)] + std::string(" ") + std::to_string(events[t].id);
}

/// Pairs the events of two steps. Runs of outside events are merged where they do not pair off.
class Aligner {
 public:
  Aligner(const std::vector<Event>& small, const std::vector<Event>& large, Index num_devices)
      : small_(small), large_(large), num_devices_(num_devices) {}

  void run() {
    while (true) {
      pair_outside();
      if (s_ == small_.size() && l_ == large_.size()) return;
      const bool both = s_ < small_.size() && l_ < large_.size();
      if (!both || small_[s_].kind != large_[l_].kind || small_[s_].id != large_[l_].id) {
        fail("event " + std::to_string(l_), described(large_, l_), described(small_, s_));
      }
      small_events.push_back(small_[s_++]);
      large_events.push_back(large_[l_++]);
    }
  }

  std::vector<Event> small_events;
  std::vector<Event> large_events;

 private:
  void pair_outside() {
    std::vector<Event> from_small = take_outside(small_, s_);
    std::vector<Event> from_large = take_outside(large_, l_);
    if (!std::ranges::equal(from_small, from_large, {}, &Event::device, &Event::device)) {
      from_small = merged_by_device(from_small, num_devices_);
      from_large = merged_by_device(from_large, num_devices_);
    }
    small_events.insert(small_events.end(), from_small.begin(), from_small.end());
    large_events.insert(large_events.end(), from_large.begin(), from_large.end());
  }

  const std::vector<Event>& small_;
  const std::vector<Event>& large_;
  Index num_devices_;
  std::size_t s_ = 0;
  std::size_t l_ = 0;
};

}  // namespace

BatchFit::BatchFit(const Graph& small, Index small_batch, const Graph& large, Index large_batch)
    : small_(small), large_(large), small_batch_(small_batch), large_batch_(large_batch) {
  if (small_batch < 1) {
    raise({"BatchFit", "small_batch", spelled(small_batch), "at least 1", "Pass its samples"});
  }
  if (large_batch <= small_batch) {
    raise({"BatchFit", "large_batch", spelled(large_batch),
           "above small_batch, which is " + spelled(small_batch),
           "Record a second step at a larger batch"});
  }
  validate(small);
  validate(large);
  expect_same_structure(small, large);
  Aligner aligner(small.events, large.events, num_devices(small));
  aligner.run();
  small_events_ = std::move(aligner.small_events);
  large_events_ = std::move(aligner.large_events);
  find_granularity();
}

Graph BatchFit::graph_at(Index batch) const {
  if (batch < 1) raise({"BatchFit", "batch", spelled(batch), "at least 1", "Pass its samples"});
  if (batch == small_batch_) return small_;
  if (batch == large_batch_) return large_;
  Graph graph = small_;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    graph.values[v].bytes = bytes_line(small_.values[v].bytes, large_.values[v].bytes, batch);
  }
  for (std::size_t i = 0; i < graph.ops.size(); ++i) fit_op(i, batch, graph.ops[i]);
  graph.events.clear();
  for (std::size_t t = 0; t < small_events_.size(); ++t) {
    graph.events.push_back(event_line(small_events_[t], large_events_[t], batch));
  }
  graph.step_seconds = step_seconds_at(batch);
  graph.step_flops = line(small_.step_flops, large_.step_flops, batch);
  graph.signature = 0;
  return graph;
}

double BatchFit::step_seconds_at(Index batch) const {
  const double seconds = line(small_.step_seconds, large_.step_seconds, batch);
  const double in_proportion = small_.step_seconds * batch / small_batch_;
  return batch < small_batch_ ? std::max(seconds, in_proportion) : seconds;
}

/// The line through both recordings, cut off at 0.
double BatchFit::line(double small, double large, Index batch) const {
  const double position = static_cast<double>(batch - small_batch_) / (large_batch_ - small_batch_);
  return std::max(0.0, small + (large - small) * position);
}

std::int64_t BatchFit::bytes_line(std::int64_t small, std::int64_t large, Index batch) const {
  // In integers, as a recording that is a line is to be met to the byte.
  const std::int64_t width = large_batch_ - small_batch_;
  const std::int64_t scaled = small * width + (large - small) * (batch - small_batch_);
  const std::int64_t unit = width * granularity_;
  return scaled <= 0 ? 0 : (scaled + unit - 1) / unit * granularity_;
}

Event BatchFit::event_line(const Event& small, const Event& large, Index batch) const {
  if (small.kind != EventKind::outside) return small;
  Event event = small;
  event.peak_bytes = bytes_line(small.peak_bytes, large.peak_bytes, batch);
  // Frees must match allocations, so both are rounded alike.
  event.net_bytes = bytes_line(small.net_bytes, large.net_bytes, batch) -
                    bytes_line(-small.net_bytes, -large.net_bytes, batch);
  return event;
}

void BatchFit::fit_op(std::size_t i, Index batch, Op& op) const {
  const Op& small = small_.ops[i];
  const Op& large = large_.ops[i];
  op.forward_seconds = line(small.forward_seconds, large.forward_seconds, batch);
  op.replay_seconds = line(small.replay_seconds, large.replay_seconds, batch);
  op.by_kernel = small.by_kernel && large.by_kernel;
  op.joins = small.joins && large.joins;
  const double joined_seconds = line(small.joined_seconds, large.joined_seconds, batch);
  op.joined_seconds = op.joins ? std::min(joined_seconds, op.replay_seconds) : 0;
  op.flops = line(small.flops, large.flops, batch);
  op.bytes_moved = line(small.bytes_moved, large.bytes_moved, batch);
  op.transient_bytes = bytes_line(small.transient_bytes, large.transient_bytes, batch);
  op.further_transient_bytes.clear();
  for (Index d = 1; d < num_devices(small_); ++d) {
    op.further_transient_bytes.push_back(
        bytes_line(transient_bytes(small, d), transient_bytes(large, d), batch));
  }
}

/// Finds the largest usual granularity of allocators that divides all recorded bytes.
void BatchFit::find_granularity() {
  std::int64_t bits = 0;
  for (const Graph* graph : {&small_, &large_}) {
    for (const Value& value : graph->values) bits |= value.bytes;
    for (const Op& op : graph->ops) {
      for (Index d = 0; d < num_devices(*graph); ++d) bits |= transient_bytes(op, d);
    }
    for (const Event& event : graph->events) bits |= event.net_bytes | event.peak_bytes;
  }
  for (const std::int64_t step : {1, 64, 512}) {
    if (bits % step == 0) granularity_ = step;
  }
}

}  // namespace gradrecomp::plan
