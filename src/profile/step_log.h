#pragma once

#include <c10/core/Device.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "profile/allocation_sink.h"
#include "profile/forms/forms.h"
#include "profile/step_memory.h"
#include "profile/times/stream_times.h"
#include "tape/observer.h"
#include "tape/tape.h"

namespace gradrecomp::profile {

class DeviceLog;

/// Logs one profiled step, forward and backward, and turns it into the planner's graph.
///
/// Memory that the program allocates besides the tape's values does not depend on the plan, so it
/// is logged once, between the marks of ops, unpacks and releases. Memory of each device on which
/// ops make values is told apart. See docs/design/profile.md.
/// Threads:  any number once the tape is sealed; before that the one that records.
class StepLog final : public tape::Observer,
                      public AllocationSink,
                      public std::enable_shared_from_this<StepLog> {
 public:
  /// Starts logging what happens to `tape`, and what this thread allocates for its step: while
  /// it is the tape that the thread touched last.
  static std::shared_ptr<StepLog> begin(const std::shared_ptr<const tape::Tape>& tape);
  ~StepLog() override;
  StepLog(const StepLog&) = delete;
  StepLog& operator=(const StepLog&) = delete;

  void op_begins(const tape::Tape& tape) override;
  void op_ends(const tape::Tape& tape, tape::OpId op) override;
  void took_in(const tape::Tape& tape, tape::OpId op) override;
  void saved(const tape::Tape& tape, tape::ValueId value, c10::ScalarType type) override;
  void sealed(const tape::Tape& tape) override;
  void demanded(const tape::Tape& tape, tape::ValueId value) override;
  void replay_begins(const tape::Tape& tape) override;
  void replay_ends(const tape::Tape& tape) override;
  void releases(const tape::Tape& tape, tape::ValueId value) override;
  void allocated(const void* pointer, std::size_t bytes) override;
  void freed(const void* pointer, std::size_t bytes) override;

  /// Looks which values the program has let go of since the last look. Call it before the tape
  /// itself lets go of values.
  void look_for_deaths(const tape::Tape& tape);
  /// Adds what verification measured for the ops from `first` on.
  void add_replay_times(tape::OpId first, const std::vector<tape::ReplayTimes>& times);
  /// The stage of what runs before the first that the program names.
  static constexpr const char* kUnnamedStage = "region";
  /// Position of the stage of that name, added if it is new.
  std::int32_t stage(const std::string& name);
  [[nodiscard]] bool has_stages() const { return !graph_.stages.empty(); }
  void backward_begins(const tape::Tape& tape);
  /// Call it when the tape has dropped what replays of the pass left behind.
  void backward_ends(const tape::Tape& tape);

  /// The graph of the step up to the pass that ended last. Further passes make it longer.
  plan::Graph graph_so_far(const tape::Tape& tape, std::uint64_t signature);
  /// Logs nothing from now on.
  void stop();

 private:
  explicit StepLog(const std::shared_ptr<const tape::Tape>& tape);

  using Clock = std::chrono::steady_clock;

  [[nodiscard]] bool is_of_another_step() const;
  void add_op(const tape::Tape& tape, tape::OpId id, double seconds);
  void mark(plan::EventKind kind, tape::ValueId id);
  void add_backward_time();
  void note_device(const tape::Tape& tape, tape::OpId op);
  void device_allocates(bool by_recorder);
  void read_device_log();
  void drop_block(c10::Device device, const void* pointer, bool own_work, bool in_op);
  void adopt(const tape::Tape& tape, tape::OpId id, StepMemory::Place place);
  void note_replaced(tape::ValueId value);
  void time_pass(const tape::Tape& tape);
  [[nodiscard]] bool has_stream_times() const;
  void resolve_versions(const tape::Tape& tape);
  /// The content that was in memory when it was freed, in which `value` had been; `num_run` ops had
  /// run.
  [[nodiscard]] tape::ValueId died(const tape::Tape& tape, tape::ValueId value,
                                   plan::Index num_run);
  void add_ops(const tape::Tape& tape);
  void add_values(const tape::Tape& tape);

  // Several threads may run backward while the one that recorded goes on; recursive because a
  // look at a storage may be its last owner and free it.
  std::recursive_mutex mutex_;
  plan::Graph graph_;
  std::weak_ptr<const tape::Tape> tape_;
  const tape::Tape* const tape_address_;
  StepMemory memory_;
  StreamTimes stream_times_;
  std::vector<SavedType> saved_types_;
  std::vector<tape::OpId> drawing_ops_;
  /// A value that the program may yet let go of.
  struct Watched {
    tape::ValueId value;
    c10::StorageImpl* memory;  ///< whose counts are there as long as the tape is
  };
  std::vector<Watched> watched_;
  std::int64_t num_looks_ = 0;
  std::vector<std::uint8_t> dead_;
  std::unordered_set<tape::ValueId> in_new_memory_;  // whose storage has lost what it overwrites
  std::vector<tape::ValueId> died_in_op_;
  std::shared_ptr<DeviceLog> device_log_;
  bool is_on_device_ = false;  ///< some op ran on a device other than the host
  bool in_op_ = false;
  std::atomic<bool> sealed_ = false;
  bool stopped_ = false;
  bool in_pass_ = false;  // of one that has not ended
  /// The event before which the last pass ended; -1: none has, or one runs.
  std::int64_t pass_end_ = -1;
  Clock::time_point op_start_;
  Clock::time_point last_mark_;  ///< of the backward pass
  double replay_seconds_before_backward_ = 0;
  double backward_seconds_ = 0;
  std::unordered_map<std::string, std::int32_t> stages_;
};

}  // namespace gradrecomp::profile
