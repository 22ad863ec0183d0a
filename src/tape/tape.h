#pragma once

#include <c10/core/Stream.h>
#include <c10/util/flat_hash_map.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gradrecomp/guard.h"
#include "gradrecomp/plan/plan.h"
#include "tape/away/absence_plan.h"
#include "tape/geometry/geometries.h"
#include "tape/timer.h"
#include "tape/value.h"

namespace gradrecomp::tape {

class Contents;
class Observer;

/// Calls `visit` once for every distinct value `op` reads.
template <typename Visit>
void for_each_input(const Op& op, Visit visit) {
  for (std::size_t i = 0; i < op.reads.size(); ++i) {
    bool seen = false;
    for (std::size_t j = 0; j < i && !seen; ++j) seen = op.reads[j].value == op.reads[i].value;
    if (!seen) visit(op.reads[i].value);
  }
}

/// By ascending target; null: no replay differs from the rule.
using SweepPlans = std::shared_ptr<const std::vector<plan::Sweep>>;

/// What a step has done so far, for its report.
struct Counts {
  std::int64_t unrecorded_calls = 0;  ///< passed on; see Note [ The door ]
  std::int64_t replayed_ops = 0;      ///< run by sweeps, not by verification
  std::int64_t substituted_ops = 0;   ///< of these, made again by kernels instead of their calls
  double replay_seconds = 0;
  std::int64_t offloaded_bytes = 0;  ///< that have left for host memory
  std::int64_t rounded_bytes = 0;    ///< that have left for rounded copies
  /// Held since the region ended, for replays yet to come, as lent memory they read went.
  std::int64_t unplanned_bytes = 0;
  std::int64_t tape_bytes = 0;  ///< of heap, as the region ended; see bytes_of()
};

/// What turned out while a step ran.
struct Findings {
  bool verification_was_short = false;  ///< it kept what it had no memory to look at
  bool draws = false;                   ///< some op drew random numbers
};

class Tape;

/// What backward passes have asked of a tape, under its lock.
struct BackwardPasses {
  std::function<void(Tape&)> begins;  ///< called when a pass first asks for a value
  int last = -1;                      ///< the number of the one that asked last
  bool went_early = false;            ///< one asked while the region ran
  std::int32_t num_sweeps = 0;
  bool is_timed = false;             ///< set before the first
  double hook_seconds = 0;           ///< if it is timed: of what autograd asks, replays included
  std::shared_ptr<Timer> timer;      ///< null unless it is timed, on a device
  std::vector<at::Tensor> unpacked;  ///< that they may still use
};

/// The operators that one step's region ran, the values between them, who wants those and what
/// holds them.
///
/// A TapeWriter adds to it, a Replayer makes again what it does not hold.
/// Lifetime: shared by the handles autograd holds and by the hooks of the region, so it is
///           gone when the graph is gone.
/// Threads:  recorded on one thread; after seal() any number of backward threads may use it.
class Tape : public std::enable_shared_from_this<Tape> {
 public:
  Tape();
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // --- what is on it ---

  [[nodiscard]] const std::deque<Value>& values() const { return values_; }
  [[nodiscard]] std::deque<Value>& values() { return values_; }
  [[nodiscard]] const std::deque<Op>& ops() const { return ops_; }
  [[nodiscard]] std::deque<Op>& ops() { return ops_; }
  /// Keeps what ops of this tape point to.
  const DispatchState* keep(const DispatchState& state);
  const PackedForm* keep(std::shared_ptr<const PackedForm> form);
  const c10::Stream* keep(const c10::Stream& stream);
  [[nodiscard]] bool is_sealed() const { return sealed_; }
  /// The value in `storage`, or -1 if the tape does not know it.
  [[nodiscard]] ValueId find(const c10::StorageImpl* storage) const;
  /// The same of the storage of `tensor`, which has one.
  [[nodiscard]] ValueId find(const at::Tensor& tensor) const {
    return find(tensor.storage().unsafeGetStorageImpl());
  }
  /// From now on `storage` is known to contain `value`.
  void know(const c10::StorageImpl* storage, ValueId value) {
    by_storage_[storage] = value;
    last_found_ = {storage, value};
  }
  /// From now on what is read of its storage is another value.
  void forget(ValueId value) {
    by_storage_.erase(values_[value].owner._unsafe_get_target());
    last_found_ = {};
  }
  /// Knows what a replay made, too: a backward pass inside the region goes on with it as it would
  /// with the original.
  void know_copy(ValueId value, const c10::Storage& storage);
  /// True if only the tape still holds the storage of `value` any more.
  [[nodiscard]] bool abandoned(ValueId value) const;
  /// Where the content of `value` is now; empty if it is nowhere.
  [[nodiscard]] c10::Storage live_storage(ValueId value) const;
  /// What the program holds of `value`, whatever it contains by now; empty if it holds nothing.
  [[nodiscard]] c10::Storage original_of(ValueId value) const;
  /// Whether its memory has been written since the region ended or, while that runs, since the
  /// recorder looked.
  [[nodiscard]] bool is_modified(ValueId value) const;
  /// The same of what is `read` of it, as far as the writer's version counter tells.
  [[nodiscard]] bool is_modified(ValueId value, Extent read) const;
  /// Whether the op that made it read blindly, so that it cannot be made again.
  [[nodiscard]] bool is_made_blindly(const Value& value) const;
  /// Whether memory that an op is `shown`, or all of `value` if it reads beyond that, may be freed
  /// before backward without LibTorch's knowledge, as no handle makes plain training read it there.
  [[nodiscard]] bool may_vanish(ValueId value, const Geometry& shown, bool reads_beyond) const;
  [[nodiscard]] bool may_vanish(const Op& op, const Read& read) const {
    return may_vanish(read.value, *read.geometry, op.traits->reads_beyond);
  }

  /// That of `tensor`, kept with the tape.
  const Geometry* geometry_of(const at::Tensor& tensor) { return geometries_.of(tensor); }

  /// All that have been asked for.
  [[nodiscard]] const Geometries& geometries() const { return geometries_; }

  // --- what it contains ---

  [[nodiscard]] Contents& contents() { return *contents_; }
  [[nodiscard]] const Contents& contents() const { return *contents_; }
  /// How contents are compared.
  [[nodiscard]] Guard guard() const { return guard_; }
  void guard(Guard guard) { guard_ = guard; }
  /// Notes what `value` contains now.
  void print(ValueId value, const Geometry& geometry, Guard guard);
  /// The same where a write, of which `written` shows all, made it of `before`.
  void print_after_write(ValueId value, ValueId before, const Geometry& written);
  /// The same of what a tensor shows of it, or of all of it where that `reads_beyond` what it
  /// shows, unless it is known. guard() says how.
  void print_shown(ValueId value, const Geometry& shown, bool reads_beyond);
  /// Whether the program still holds exactly what was noted of all that ops may have read of it.
  [[nodiscard]] bool is_as_printed(ValueId value) const;

  // --- who holds it, and who wants it ---

  void hold(ValueId value, Hold kind, c10::Storage storage);
  void let_go(ValueId value);
  /// Makes `value` one that the tape must hold because it cannot make it again.
  void make_source(ValueId value);
  /// Notes that what `value` contained is gone: ops that read it cannot be replayed, unless it
  /// can be made again.
  void lose(ValueId value);
  /// The same of parts of lent memory, which is lost to the ops that read them.
  void lose(ValueId value, const std::vector<OpId>& to_readers);
  /// Those that may run again and of which a part may vanish of what they read of a value in lent
  /// memory, now that a handle has gone that has `shown` it.
  [[nodiscard]] std::vector<OpId> ops_that_lose(ValueId value, Extent shown);
  /// Starts the way back from host memory; readers of the value wait for its end.
  void bring_back(ValueId value);
  /// Lets go of what a replay or a transfer made; what host memory has stays there.
  void forget_copy(ValueId value);
  /// Notes that a handle, or an op that reads it, does not want it any more.
  void stop_wanting(ValueId value);
  /// Whether autograd may ask for a value yet.
  [[nodiscard]] bool has_handles() const;
  /// Holds what the program still does, for handles alone, until none is left. Call it before
  /// seal(), if at all. See Note [ What the program holds ].
  void share_what_is_held();
  /// Ends the recording: drops what no replay or unpack can want.
  void seal();

  // --- the plan it is under ---

  /// From now on replays cache what `sweeps` say, and what is kept goes away as `absences` say.
  /// Values that do not exist are passed over.
  void follow(SweepPlans sweeps, Absences absences);
  /// What the plan says of the sweep that a demand for `target` sets off; null: nothing.
  [[nodiscard]] const plan::Sweep* sweep_plan(ValueId target) const;
  [[nodiscard]] const AbsencePlan* absences() const { return absences_.get(); }
  /// What to call the plan in messages.
  void name_plan(std::shared_ptr<const std::string> name) { plan_name_ = std::move(name); }
  [[nodiscard]] const std::string* plan_name() const { return plan_name_.get(); }

  // --- the step it belongs to ---

  /// Keeps backward threads out while it is held, to look at several things at once.
  [[nodiscard]] std::unique_lock<std::recursive_mutex> lock() const;
  /// The same for callers that must not wait: owns nothing where another thread holds it.
  [[nodiscard]] std::unique_lock<std::recursive_mutex> try_lock() const;

  void observe(std::shared_ptr<Observer> observer) { observer_ = std::move(observer); }
  [[nodiscard]] Observer* observer() const { return observer_.get(); }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] Counts& counts() { return counts_; }
  [[nodiscard]] const Findings& findings() const { return findings_; }
  [[nodiscard]] Findings& findings() { return findings_; }
  [[nodiscard]] BackwardPasses& backward() { return backward_; }

 private:
  void distrust_if_written(ValueId id);
  void give_up(Op& op);
  void count_wanted();
  void forget_call(Op& op) const;
  void print_what_replays_read();

  std::deque<Value> values_;
  std::deque<Op> ops_;
  Geometries geometries_;
  std::vector<std::unique_ptr<const DispatchState>> dispatch_states_;
  std::vector<std::shared_ptr<const PackedForm>> packed_forms_;
  std::deque<c10::Stream> streams_;
  ska::flat_hash_map<const c10::StorageImpl*, ValueId> by_storage_;
  /// One of these: what an op reads is asked for several times in a row.
  mutable std::pair<const c10::StorageImpl*, ValueId> last_found_;
  /// Made by replays while the region runs; keeps their addresses from being used again.
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> known_copies_;
  std::unique_ptr<Contents> contents_;
  Guard guard_ = Guard::sampled;
  std::shared_ptr<Observer> observer_;
  SweepPlans sweep_plans_;
  Absences absences_;
  std::shared_ptr<const std::string> plan_name_;
  bool sealed_ = false;
  Counts counts_;
  Findings findings_;
  BackwardPasses backward_;
  // Unpacks and releases may come from several backward threads; recursive because freeing a
  // storage may run a user's deleter, which may drop another handle.
  mutable std::recursive_mutex mutex_;
};

}  // namespace gradrecomp::tape
