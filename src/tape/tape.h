#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/flat_hash_map.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gradrecomp/guard.h"
#include "gradrecomp/plan/plan.h"
#include "tape/host_memory/offload_plan.h"
#include "tape/op.h"

namespace gradrecomp::tape {

class Contents;
class HostCopy;
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

/// Why the tape itself holds a value's storage.
enum class Hold : std::uint8_t {
  none,       ///< dropped: it lives only as long as the program holds it
  window,     ///< saved by autograd, held until the current window closes
  kept,       ///< the plan keeps it, or it is a boundary of the safe plan
  source,     ///< cannot be made again: external, not replayable, or verification failed
  cached,     ///< made again by a replay, held until its last handle is released
  listed,     ///< made again by a replay whose plan lists it, held until nothing wants it
  offloaded,  ///< kept, in host memory alone
  fetched,    ///< back from there, held until nothing wants it
};

/// By ascending target; null: no replay differs from the rule.
using SweepPlans = std::shared_ptr<const std::vector<plan::Sweep>>;

/// A storage at one content version.
struct Value {
  /// The storage, whether the tape holds it or not. Also keeps its address from being used again.
  c10::weak_intrusive_ptr<c10::StorageImpl> owner{c10::intrusive_ptr<c10::StorageImpl>()};
  c10::Storage storage;            ///< the tape's own hold; empty if `hold` is none or offloaded
  std::shared_ptr<HostCopy> host;  ///< of an offloaded value, as long as the tape holds it
  c10::VariableVersion version_counter;
  /// Of aliases that autograd does not take for views (aten::_unsafe_view), which count alone.
  std::vector<c10::VariableVersion> alias_counters;
  std::uint32_t retired_version = 0;  ///< of counters that nobody else has any more
  std::uint32_t sealed_version = 0;
  std::uint32_t seen_version = 0;  ///< when the recorder last looked
  std::uint32_t copy_version = 0;  ///< when the tape got a copy of it, by a replay or from the host
  std::int32_t num_due_bumps = 0;  ///< of `seen_version`, by writes that have been recorded
  std::int64_t bytes = 0;
  OpId producer = -1;           ///< -1: external
  ValueId overwrites = -1;      ///< the value whose memory it took over
  ValueId overwritten_by = -1;  ///< the next content of its storage, maybe in other memory
  std::int32_t num_handles = 0;
  std::int32_t num_wanted = 0;  ///< handles, and wanted ops that read it
  std::int32_t num_reads = 0;   ///< by recorded ops
  std::int32_t num_uses = 0;    ///< reads left in the current replay sweep
  std::int32_t sweep = 0;       ///< last replay sweep that visited it
  c10::Storage temporary;       ///< made in the current replay sweep
  Hold hold = Hold::none;
  bool external = false;
  bool uninitialized = false;  ///< made by an empty-like op and not written yet
  bool must_keep = false;      ///< is a source, or would be if the program let go of it
  bool lost = false;           ///< cannot be made again and is not held
  bool borrowed = false;       ///< lent to LibTorch, or by an operator that keeps hold of it
  bool has_print = false;      ///< what it contains is known, see Contents
  bool stale = false;          ///< what the program holds is no longer this content
  bool snapshot = false;       ///< cloned when overwritten, because its content is a source

  /// Whether `other` is the storage that it is a content of.
  [[nodiscard]] bool is_content_of(const c10::Storage& other) const {
    return owner._unsafe_get_target() == other.unsafeGetStorageImpl();
  }
};

/// Measured for one op; 0 where that was not possible.
struct ReplayTimes {
  double seconds = 0;         ///< of its replay
  double joined_seconds = 0;  ///< of its replay in the pass of the op right before it
};

/// The recorded operators of one step's region, and the values between them.
///
/// Lifetime: shared by the handles autograd holds and by the hooks of the region, so it is
///           gone when the graph is gone.
/// Threads:  recorded on one thread; after seal() any number of backward threads may use it.
class Tape : public std::enable_shared_from_this<Tape> {
 public:
  Tape();
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  [[nodiscard]] const std::deque<Value>& values() const { return values_; }
  [[nodiscard]] const std::deque<Op>& ops() const { return ops_; }
  [[nodiscard]] bool is_sealed() const { return sealed_; }
  /// The last value made in the storage of `value`.
  [[nodiscard]] ValueId last_version(ValueId value) const;
  /// True if only the tape still holds the storage of `value` any more.
  [[nodiscard]] bool abandoned(ValueId value) const;

  // --- recording ---

  /// The value `tensor` shows now; an unknown storage becomes an external value.
  ValueId read(const at::Tensor& tensor);
  /// An external value over a private copy of `number`, a 0-dim CPU tensor, so that holding it
  /// does not change when the program's own temporary dies.
  ValueId add_constant(const at::Tensor& number);
  /// Notes that a recorded op reads a value.
  void count_read(const Read& read);
  /// From now on contents are compared so.
  void guard(Guard guard) { guard_ = guard; }
  /// Notes what `value` contains now.
  void print(ValueId value, const Geometry& geometry, Guard guard);
  /// Notes what a source contains now, unless that is known or does not matter.
  void print_source(ValueId value, const Geometry& geometry);
  /// Whether nobody knows what `value` contains, though the guard could.
  [[nodiscard]] bool is_unknown(ValueId value) const;
  /// Whether what `shown` shows of `value` has been written unseen since the last look.
  /// `bumped`: its version counter has grown on account of a write that is yet to come.
  [[nodiscard]] bool was_written_unseen(ValueId value, const at::Tensor& shown, bool bumped);
  /// The same of all that it contains.
  [[nodiscard]] bool was_written_unseen(ValueId value, bool bumped);
  /// Notes that the version counter of `value` is about to grow, or has.
  void expect_bump(ValueId value) { ++values_[value].num_due_bumps; }
  /// Notes that what `value` contained is gone: ops that read it cannot be replayed, unless it
  /// can be made again.
  void lose(ValueId value);
  /// Whether its memory may be freed before backward without LibTorch's knowledge, as no handle
  /// makes plain training read it there.
  [[nodiscard]] bool may_vanish(ValueId value) const;
  /// Whether an op made it that keeps hold of its memory, so that it may be written at any time,
  /// whoever reads it later.
  [[nodiscard]] bool is_kept_by_its_maker(ValueId value) const;
  /// Notes that it is not known in which NumericMode which op ran: none can be made again.
  void lose_mode() { mode_is_lost_ = true; }
  [[nodiscard]] bool mode_is_lost() const { return mode_is_lost_; }
  /// Whether all ops ran in one NumericMode.
  [[nodiscard]] bool has_one_mode() const;
  /// Whether verification kept what it had no memory to look at.
  [[nodiscard]] bool verification_was_short() const { return verification_was_short_; }
  /// Notes that `alias` shows `value` too, with a version counter of its own.
  void watch(ValueId value, const at::Tensor& alias);
  /// Marks `value` as made by an empty-like op.
  void set_uninitialized(ValueId value) { values_[value].uninitialized = true; }
  /// Notes that its memory is somebody else's, too. Nothing is made again from it.
  void set_borrowed(ValueId value) { values_[value].borrowed = true; }
  /// The value in `storage`, or -1 if the tape does not know it.
  [[nodiscard]] ValueId find(const c10::StorageImpl* storage) const;
  /// A fresh value made by `producer`.
  ValueId add_value(const at::Tensor& tensor, OpId producer);
  /// The same for the result of a factory, whose version counter must stay its own for now.
  ValueId add_factory_value(const at::Tensor& tensor, OpId producer);
  /// A new value in the storage of `old`, written by `producer`.
  /// `bumps`: its version counter will grow on that account.
  ValueId add_version(ValueId old, c10::Storage storage, OpId producer, bool bumps);
  OpId add_op(Op op);
  /// Makes `value` the result of another op than the one it was added with.
  void give_to(ValueId value, OpId producer) { values_[value].producer = producer; }
  /// Holds a clone of `value`, if it is a source that recorded ops read, before it is overwritten.
  void snapshot_before_write(ValueId value);
  /// Makes `value` one that the tape must hold because it cannot make it again.
  void make_source(ValueId value);
  void keep(ValueId value);
  /// Keeps it, in host memory if the plan that is followed says so.
  void keep_as_planned(ValueId value);
  /// Lets go of the device's memory of what leaves after ops up to `op`.
  void leave_after(OpId op);
  void hold_in_window(ValueId value);
  /// Ends a window: what the program still holds becomes a boundary, the rest is dropped, unless
  /// autograd has saved it and `keeps_saved`.
  void close_window(ValueId first, bool keeps_saved);
  /// Ends the recording: drops what no replay or unpack can want.
  void seal();

  // --- handles and replay ---

  ValueId add_handle(const at::Tensor& tensor);
  void release_handle(ValueId value);
  /// Holds what backward was given as long as somebody else does, as autograd holds what it saved.
  /// Else a leaf would take it for its gradient and add to it in place.
  void hold_while_used(const at::Tensor& unpacked);
  /// The storage of `value`, replaying what it takes.
  /// Throws: c10::Error if a value it needs was modified after the forward pass, with the knowledge
  ///         of its version counter or without, or is gone, naming the op.
  c10::Storage materialize(ValueId value);
  /// Runs the ops [first, last) once on the originals and compares what they make with the
  /// originals that still live, bit by bit; values that differ become sources.
  /// Where `finds_kernels`, also looks for kernels that make the same bits for less.
  std::vector<ReplayTimes> verify(OpId first, OpId last, bool finds_kernels);
  /// From now on replays cache what `sweeps` say, and what is kept goes to host memory as
  /// `offloads` say. Values that do not exist are passed over.
  void follow(SweepPlans sweeps, Offloads offloads);
  /// What to call the plan in messages.
  void name_plan(std::shared_ptr<const std::string> name) { plan_name_ = std::move(name); }
  /// Says what was to be made again, and under which plan, when that failed.
  [[nodiscard]] std::string describe(ValueId value) const;
  /// Forgets all values cached by replays that are still wanted (after retain_graph).
  void drop_cached();

  /// The first device other than the CPU that an op ran on, else the CPU.
  [[nodiscard]] c10::Device device() const;
  /// Per op, what verification found; what a later step on the same op sequence may go by.
  [[nodiscard]] std::vector<Variant> variants() const;
  /// Keeps backward threads out while it is held, to look at several things at once.
  [[nodiscard]] std::unique_lock<std::recursive_mutex> lock() const;
  /// The same for callers that must not wait: owns nothing where another thread holds it.
  [[nodiscard]] std::unique_lock<std::recursive_mutex> try_lock() const;

  /// Whether autograd may ask for a value yet.
  [[nodiscard]] bool has_handles() const;
  /// Whether a backward pass asked for something while the region ran.
  [[nodiscard]] bool went_backward_early() const { return went_backward_early_; }
  /// Calls `begins`, under the lock, when a backward pass first asks for a value.
  void at_backward(std::function<void(Tape&)> begins) { backward_begins_ = std::move(begins); }
  /// Notes that a backward pass of that number asks for a value; -1: none does.
  void asked_by(int graph_task);

  void observe(std::shared_ptr<Observer> observer) { observer_ = std::move(observer); }
  [[nodiscard]] Observer* observer() const { return observer_.get(); }

  /// Replays so far: ops run by sweeps (verification not counted).
  [[nodiscard]] std::int64_t num_replayed_ops() const { return num_replayed_ops_; }
  /// Of these, ops made again by kernels instead of their calls.
  [[nodiscard]] std::int64_t num_substituted_ops() const { return num_substituted_ops_; }
  [[nodiscard]] double replay_seconds() const { return replay_seconds_; }
  /// Bytes that have left for host memory.
  [[nodiscard]] std::int64_t offloaded_bytes() const { return offloaded_bytes_; }
  /// Bytes held since the region ended, for replays yet to come, as lent memory they read went.
  [[nodiscard]] std::int64_t unplanned_bytes() const { return unplanned_bytes_; }

 private:
  friend class Sweep;
  friend class Verification;

  ValueId add(const c10::Storage& storage, OpId producer);
  void take_counter(ValueId id, const at::Tensor& tensor);
  void hold(ValueId id, Hold kind, c10::Storage storage);
  void let_go(ValueId id);
  c10::Storage replay(ValueId id);
  c10::Storage find_or_replay(ValueId id);
  [[nodiscard]] c10::Storage original_of(ValueId id) const;
  /// The stream of the op that made `id`; none: on the CPU, or no op of the region.
  [[nodiscard]] std::optional<c10::Stream> stream_of_maker(ValueId id) const;
  /// The stream that memory of `id` is allocated on; none: not known, or on the CPU.
  [[nodiscard]] std::optional<c10::Stream> home_of(ValueId id) const;
  /// Lets `reader` use what the tape holds of `id`.
  void lend(ValueId id, const c10::Storage& storage, const c10::Stream& reader) const;
  void show_as(ValueId id, const c10::Storage& storage);
  void bring_back(ValueId id);
  void bring_back_at(ValueId demanded);
  void distrust_if_written(ValueId id);
  void count_wanted();
  void stop_wanting(ValueId id);
  void check_unmodified(ValueId id, const Op& reader) const;
  [[nodiscard]] const plan::Sweep* sweep_plan(ValueId target) const;
  [[nodiscard]] c10::Storage live_storage(ValueId id) const;
  [[nodiscard]] bool is_modified(ValueId id) const;
  /// Whether the op that made it read blindly, so that it cannot be made again.
  [[nodiscard]] bool is_made_blindly(const Value& value) const;
  void print_what_replays_read();
  void check_content(const Read& read, const Op& reader);
  void look_for_stale(ValueId id);
  void let_go_of_unused();
  void part_with_lent(ValueId id);
  void note_early_backward();
  bool has_new_version(ValueId id, bool bumped);
  [[nodiscard]] bool is_as_printed(ValueId id) const;
  void forget_copy(ValueId id);
  void forget_copy_if_written(ValueId id);

  std::deque<Value> values_;
  std::deque<Op> ops_;
  ska::flat_hash_map<const c10::StorageImpl*, ValueId> by_storage_;
  /// Made by replays while the region runs; keeps their addresses from being used again.
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> shown_;
  std::unique_ptr<Contents> contents_;
  std::vector<at::Tensor> unpacked_;  ///< that backward may still use
  Guard guard_ = Guard::sampled;
  std::shared_ptr<Observer> observer_;
  SweepPlans sweep_plans_;
  Offloads offloads_;
  OpId last_left_op_ = -1;  ///< what leaves after ops up to this one has left
  bool mode_is_lost_ = false;
  bool verification_was_short_ = false;
  std::int64_t offloaded_bytes_ = 0;
  std::int64_t unplanned_bytes_ = 0;
  std::shared_ptr<const std::string> plan_name_;
  std::int32_t num_sweeps_ = 0;
  bool went_backward_early_ = false;
  std::int64_t num_replayed_ops_ = 0;
  std::int64_t num_substituted_ops_ = 0;
  double replay_seconds_ = 0;
  std::function<void(Tape&)> backward_begins_;
  int last_graph_task_ = -1;
  bool sealed_ = false;
  bool draws_ = false;  // some op drew random numbers
  // Unpacks and releases may come from several backward threads; recursive because freeing a
  // storage may run a user's deleter, which may drop another handle.
  mutable std::recursive_mutex mutex_;
};

}  // namespace gradrecomp::tape
