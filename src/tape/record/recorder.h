#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tape/drafts/argument_copies.h"
#include "tape/drafts/argument_reader.h"
#include "tape/drafts/result_finder.h"
#include "tape/record/followed_plan.h"
#include "tape/record/windows.h"
#include "tape/writing/tape_writer.h"
#include "tape/writing/unseen_writes.h"

namespace gradrecomp::tape {

struct Part;

/// Records the operators of one thread onto a tape, from construction to finish() or destruction.
///
/// Lies below Autograd, ADInplaceOrView and Autocast; see docs/design/tape.md.
class Recorder {
 public:
  explicit Recorder(std::shared_ptr<Tape> tape, RecordingPlan plan = {},
                    FollowedPlan::Diverged diverged = {});
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// The recorder of this thread; null if there is none, or if it is left.
  static Recorder* current() noexcept;
  /// The same, left or not.
  static Recorder* installed() noexcept;

  [[nodiscard]] const std::shared_ptr<Tape>& tape() const { return tape_; }
  [[nodiscard]] const FollowedPlan& plan() const { return plan_; }
  /// True while values are held per window because no plan covers the current op.
  [[nodiscard]] bool in_window_mode() const { return plan_->retentions == nullptr; }

  /// Records normalisations in parts, and lets kernels that verification has found make what they
  /// can again.
  void take_apart() { takes_apart_ = true; }
  void begin_stage(std::int32_t stage) { stage_ = stage; }
  /// Looks for writes by hand since the last op, and has leave what is due after that. Call it when
  /// the region ends, after its last window.
  void region_ends() {
    unseen_writes_.look_at_watched();
    writer_.leave();
  }
  /// What is held while no plan covers the current op.
  [[nodiscard]] Windows& windows() { return windows_; }
  /// Ends the current window. Returns the times of its ops, none if not verified.
  std::vector<ReplayTimes> close_window(bool is_last) {
    return windows_.close(is_last, takes_apart_);
  }

  /// Called by the dispatcher for every operator of the region.
  void record(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  /// Called by autograd for every plain tensor it saves in the region.
  ValueId save(const at::Tensor& tensor);
  /// Notes that `tensor` is about to be written where the recorder does not see it.
  void note_write(const at::Tensor& tensor) {
    unseen_writes_.note(tensor, UnseenWrites::Content::unsure);
  }

  /// Called before each op that is not a mere view; the region closes windows from here.
  std::function<void()> before_op;
  /// Once this is true nothing more is recorded; another thread may set it. May be null.
  const std::atomic<bool>* is_left = nullptr;

 private:
  static bool is_recordable(const torch::jit::Stack& stack, std::size_t num_arguments);
  void pass_on(const OpTraits& traits, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  void note_written_part(const at::Tensor& tensor, const at::Tensor& part);
  void take_in_results(const OpTraits& traits, c10::DispatchKeySet keys,
                       const torch::jit::Stack& stack);
  void record_call(const OpTraits& traits, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  void record_or_pass_on(const OpTraits& traits, c10::DispatchKeySet keys,
                         torch::jit::Stack* stack);
  void record_suspect(const OpTraits& traits, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  void record_unseen_write(const at::Tensor& tensor);
  void guard_externals(Draft& draft);
  void look_at_device(Draft& draft);
  const DispatchState* dispatch_state(const OpTraits& traits);
  void foresee(const Draft& draft);
  void mix_gradients(c10::ArrayRef<c10::IValue> arguments);
  void prepare_writes(Draft& draft);
  void call(Draft& draft, torch::jit::Stack* stack);
  void keep_results(Draft& draft);
  void judge(ValueId value);
  void end(Draft& draft, const torch::jit::Stack* stack);
  std::optional<Part> take_part_of(Draft& draft, c10::ArrayRef<c10::IValue> returned);
  void finish(Op&& op);

  std::shared_ptr<Tape> tape_;
  TapeWriter writer_;
  ArgumentReader reader_;
  ResultFinder finder_;
  UnseenWrites unseen_writes_;
  ArgumentCopies argument_copies_;
  Windows windows_;
  FollowedPlan plan_;
  const DispatchState* dispatch_state_ = nullptr;  // of the last call
  bool takes_apart_ = false;
  std::int32_t stage_ = 0;
  Recorder* outer_ = nullptr;
  c10::impl::IncludeDispatchKeyGuard included_;
};

}  // namespace gradrecomp::tape
