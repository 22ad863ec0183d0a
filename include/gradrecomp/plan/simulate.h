#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gradrecomp/export.h"
#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"

namespace gradrecomp::plan {

/// What one step does under a kept set and the sweeps of a plan; bytes are of the main device.
struct Simulation {
  std::int64_t peak_bytes = 0;  ///< highest live activation bytes above the step's start
  std::int64_t seal_bytes = 0;  ///< live when the forward pass of the region has ended
  Index peak_event = -1;        ///< position in Graph::events at which the peak occurs
  double replay_seconds = 0;
  double replay_flops = 0;
  double replay_bytes_moved = 0;
  std::int64_t num_replayed_ops = 0;
  bool operator==(const Simulation&) const = default;
};

/// How one step went, event by event.
struct Timeline {
  std::vector<std::int64_t> live_bytes;  ///< after each event
  std::vector<std::int64_t> peak_bytes;  ///< highest within each event
  std::vector<std::uint8_t> held;        ///< per value: the tape holds it when the seal is done
  std::vector<Index> replayed_ops;       ///< in the order of their replays
  std::vector<Index> replay_events;      ///< of each of these, the event that set it off
  std::vector<Index> returned_values;    ///< offloaded ones, in the order of their ways back
  std::vector<Index> return_events;      ///< of each of these, the event that set it off
};

class Execution;

/// Replays the event log of one graph under many kept sets, reusing its compiled form.
///
/// Counts memory of the main device; pass on_device(graph, d) for that of another.
/// Mimics the replay engine exactly; see Note [ The executor's rule ] in execution.cpp.
/// Threads:    one object serves one thread at a time; it does not refer to the graph it came from.
/// Complexity: a run takes O(ops + events + replayed ops + their inputs).
class GRADRECOMP_API Simulator {
 public:
  /// Throws:  std::invalid_argument if validate(graph) does.
  explicit Simulator(const Graph& graph);
  ~Simulator();
  Simulator(Simulator&& other) noexcept;
  Simulator& operator=(Simulator&& other) noexcept;

  /// Throws:  std::invalid_argument if `keep` does not have one entry per value;
  ///          std::logic_error if a replay needs a must_keep value that is gone.
  Simulation run(std::span<const std::uint8_t> keep);
  Simulation run(std::span<const std::uint8_t> keep, Timeline& timeline);

  /// The same where the replays that `sweeps` lists leave behind what is listed there.
  ///
  /// Throws:  std::invalid_argument also if targets, or the values a sweep caches, do not ascend or
  ///          are not the last versions of their storages.
  Simulation run(std::span<const std::uint8_t> keep, std::span<const Sweep> sweeps);
  Simulation run(std::span<const std::uint8_t> keep, std::span<const Sweep> sweeps,
                 Timeline& timeline);

  /// The same where kept values are in host memory for a while, which counts nothing.
  ///
  /// Throws:  std::invalid_argument also if the values of `offloads` do not ascend, are not kept
  ///          last versions that ops make, or name an op before their own or no value.
  Simulation run(std::span<const std::uint8_t> keep, std::span<const Sweep> sweeps,
                 std::span<const Offload> offloads);
  Simulation run(std::span<const std::uint8_t> keep, std::span<const Sweep> sweeps,
                 std::span<const Offload> offloads, Timeline& timeline);

  /// The same under all that `plan` says, roundings included.
  ///
  /// Throws:  std::invalid_argument also if the values of `plan.roundings` do not ascend, are not
  ///          kept last versions that ops make and that may be rounded, are offloaded, or name an
  ///          op before their own.
  Simulation run(const Plan& plan);
  Simulation run(const Plan& plan, Timeline& timeline);

  /// The sweeps of a plan whose replays leave a saved value `v` behind only from event
  /// `cached_from[v]` on, and are listed where that makes a difference. Where that is ~t, below 0,
  /// from event t on they leave `v` behind as long as anything wants it, saved or not.
  std::vector<Sweep> defer(std::span<const std::uint8_t> keep, std::span<const Index> cached_from);

 private:
  Simulation run_events(std::span<const std::uint8_t> keep, std::span<const Sweep> sweeps,
                        std::span<const Offload> offloads, std::span<const Rounding> roundings,
                        Timeline* timeline);

  std::unique_ptr<Execution> execution_;
};

/// Replays the event log of `graph` around the values that `keep` holds, byte by byte.
///
/// Guarantees: the activation peak of a step on the same op sequence, equal to the byte on CPU.
/// Throws:     std::invalid_argument if the size of `keep` is not that of graph.values.
GRADRECOMP_API Simulation simulate(const Graph& graph, std::span<const std::uint8_t> keep);
GRADRECOMP_API Simulation simulate(const Graph& graph, std::span<const std::uint8_t> keep,
                                   std::span<const Sweep> sweeps,
                                   std::span<const Offload> offloads = {});

/// The first, also returning live bytes after every event.
GRADRECOMP_API Simulation simulate(const Graph& graph, std::span<const std::uint8_t> keep,
                                   std::vector<std::int64_t>& live_bytes_after_event);

}  // namespace gradrecomp::plan
