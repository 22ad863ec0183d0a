#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "gradrecomp/plan/policies.h"
#include "gradrecomp/plan/simulate.h"

namespace gradrecomp::test {

/// The least replay seconds of a small graph at every peak, over all kept sets and all ways to
/// leave values behind in the sweeps.
///
/// Every sweep that a demand sets off may cache any of the values that it makes. Two demands of one
/// value that both miss are served by equal sweeps, as a plan cannot tell them apart.
class NestedBruteForce {
 public:
  explicit NestedBruteForce(const plan::Graph& graph) : graph_(graph), simulator_(graph) {
    std::vector<std::size_t> choices;
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      const plan::Value& x = graph.values[v];
      if (x.producer >= 0 && x.overwritten_by < 0 && !x.must_keep) choices.push_back(v);
    }
    for (std::uint64_t bits = 0; bits < std::uint64_t{1} << choices.size(); ++bits) {
      keep_.assign(graph.values.size(), 0);
      for (std::size_t i = 0; i < choices.size(); ++i) keep_[choices[i]] = (bits >> i) & 1;
      search();
    }
  }

  /// Infinite if there is none.
  [[nodiscard]] double least_replay_seconds(std::int64_t max_peak_bytes) const {
    const auto behind = front_.upper_bound(max_peak_bytes);
    return behind == front_.begin() ? std::numeric_limits<double>::infinity()
                                    : std::prev(behind)->second;
  }

  /// Replay seconds by peak; these fall as those rise.
  [[nodiscard]] const std::map<std::int64_t, double>& front() const { return front_; }

  [[nodiscard]] std::int64_t num_schedules() const { return num_schedules_; }

 private:
  using Index = plan::Index;

  /// Decides about the first sweep that is undecided, in all ways.
  void search() {
    plan::Timeline timeline;
    const plan::Simulation result = simulator_.run(keep_, sweeps_, timeline);
    const auto first = std::ranges::find_if(timeline.replay_events, [this](Index event) {
      return !decided_.contains(graph_.events[event].id);
    });
    if (first == timeline.replay_events.end()) return add(result);
    const auto begin = static_cast<std::size_t>(first - timeline.replay_events.begin());
    if (is_hopeless(timeline, begin)) return;
    const Index target = graph_.events[*first].id;
    const std::vector<Index> made = made_by(timeline, begin);
    decided_.insert(target);
    search();  // the sweep is not listed
    for (std::uint64_t bits = 0; bits < std::uint64_t{1} << made.size(); ++bits) {
      plan::Sweep sweep{target, {}};
      for (std::size_t i = 0; i < made.size(); ++i) {
        if ((bits >> i) & 1) sweep.cached.push_back(made[i]);
      }
      const std::vector<plan::Sweep> before = sweeps_;
      sweeps_.insert(std::ranges::lower_bound(sweeps_, target, {}, &plan::Sweep::target), sweep);
      search();
      sweeps_ = before;
    }
    decided_.erase(target);
  }

  /// What has happened before the sweep that begins there is as bad as a whole schedule.
  [[nodiscard]] bool is_hopeless(const plan::Timeline& timeline, std::size_t begin) const {
    const Index event = timeline.replay_events[begin];
    const auto peak =
        std::max_element(timeline.peak_bytes.begin(), timeline.peak_bytes.begin() + event);
    double seconds = 0;
    for (std::size_t i = 0; i < begin; ++i) {
      seconds += graph_.ops[timeline.replayed_ops[i]].replay_seconds;
    }
    return least_replay_seconds(peak == timeline.peak_bytes.begin() + event ? 0 : *peak) <= seconds;
  }

  /// What the sweep that begins there makes and might cache, ascending.
  [[nodiscard]] std::vector<Index> made_by(const plan::Timeline& timeline,
                                           std::size_t begin) const {
    const Index event = timeline.replay_events[begin];
    std::vector<Index> made;
    for (std::size_t i = begin; i < timeline.replay_events.size(); ++i) {
      if (timeline.replay_events[i] != event) break;
      for (const Index v : graph_.ops[timeline.replayed_ops[i]].outputs) {
        const bool last_version = graph_.values[v].overwritten_by < 0;
        if (last_version && v != graph_.events[event].id) made.push_back(v);
      }
    }
    std::ranges::sort(made);
    return made;
  }

  void add(const plan::Simulation& result) {
    ++num_schedules_;
    if (least_replay_seconds(result.peak_bytes) <= result.replay_seconds) return;
    auto at = front_.insert_or_assign(result.peak_bytes, result.replay_seconds).first;
    for (++at; at != front_.end() && at->second >= result.replay_seconds;) at = front_.erase(at);
  }

  const plan::Graph& graph_;
  plan::Simulator simulator_;
  plan::KeptSet keep_;
  std::vector<plan::Sweep> sweeps_;
  std::set<Index> decided_;
  std::map<std::int64_t, double> front_;
  std::int64_t num_schedules_ = 0;
};

}  // namespace gradrecomp::test
