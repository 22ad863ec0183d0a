#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "gradrecomp/export.h"
#include "gradrecomp/options.h"
#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"
#include "gradrecomp/report.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

class OpenStep;
class Session;
class Step;

namespace detail {

/// As OpenStep::close(), for a step whose code has returned: it has let go of all that was its own,
/// so what autograd saved and the program still holds stays until autograd lets go of it. See Note
/// [ What the program holds ] in tape.cpp.
GRADRECOMP_API void close_returned(OpenStep& step);

}  // namespace detail

/// A step of a region, from Region::open() to close(). Move-only.
///
/// Destroyed without close(), as when an exception passes, it gives the step up: what the region
/// ran stays right, and nothing is learned from it.
/// Threads: opened, closed and destroyed on one thread. Destroyed on another, it stays open until
///          the first opens a region again.
class GRADRECOMP_API OpenStep {
 public:
  explicit OpenStep(std::unique_ptr<Step> step);
  ~OpenStep();
  OpenStep(OpenStep&& other) noexcept;
  OpenStep& operator=(OpenStep&& other) noexcept;

  /// Ends the step's forward pass: what the plan drops is dropped. Does nothing the second time.
  /// Throws:  c10::Error on another thread than it was opened on; it stays open then.
  void close();

 private:
  friend void detail::close_returned(OpenStep& step);
  void close(bool has_returned);
  void give_up() noexcept;

  std::unique_ptr<Step> step_;  // null: the code runs plainly
};

/// A part of the forward pass in which a plan decides what stays in memory for backward.
///
///   gradrecomp::Region region({.max_overhead = 0.05});
///   auto logits = region.run([&] { return model->forward(images); });
///   criterion(logits, labels).backward();
///
/// The first step of a new op sequence is profiled and, by default, verified; later steps follow
/// its plan. A sequence that begins like a known one is profiled only if it comes again. A region
/// may run several times before backward, with one sequence or with several. Under no_grad the
/// callable runs plainly, and so it does inside another region. A region does not ask whether
/// modules train or evaluate. Movable, not copyable; a region that was moved from throws.
///
/// Threads:    one thread at a time runs a region; its backward may run on any, and beside the
///             forward pass only once the region is left.
/// Guarantees: gradients, buffers and random state are those of the plain step, bit for bit, or
///             backward throws. What may still go unseen is listed under "Shortcomings" in
///             docs/design/tape.md: above all, writes that bypass the dispatcher and version
///             counters, that note_write() does not announce, and that the guard (Options::guard)
///             does not meet.
class GRADRECOMP_API Region {
 public:
  /// Throws:  c10::ValueError if an option is out of range or contradicts another.
  explicit Region(Options options = {});
  ~Region();
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;

  /// Runs `body` as one step of the region and returns what it returns, of any type that
  /// can be moved; what it returns by reference is copied.
  ///
  /// Throws: what `body` throws; the thread's state is then as it was before.
  template <typename Body>
  auto run(Body&& body);

  /// The same for code that is not one callable: a step until the result's close(). Unlike run(),
  /// it does not hold on to what autograd has saved and the program lets go of after close(); see
  /// "Shortcomings" in docs/design/tape.md.
  [[nodiscard]] OpenStep open();

  /// The plan the last step followed, or the one its backward made.
  /// Throws:  c10::Error if no step has been profiled yet.
  [[nodiscard]] plan::Plan plan() const;
  /// The profiled op graph that plan() was made for.
  /// Throws:  c10::Error if no step has been profiled yet.
  [[nodiscard]] plan::Graph graph() const;
  /// Whether plan() and graph() have something to return.
  [[nodiscard]] bool has_plan() const;
  /// As they were given.
  [[nodiscard]] Options options() const;
  /// What the step that began last has done so far.
  [[nodiscard]] StepReport last_step() const;
  /// Op sequences that the region has a plan for.
  [[nodiscard]] std::int64_t num_plans() const;

  /// One line: policy, predicted activation peak, its share of plain, both overheads, and why the
  /// last step followed no plan, if it did not.
  [[nodiscard]] std::string brief_report() const;
  /// A table with one row per stage.
  [[nodiscard]] std::string full_report() const;

 private:
  [[nodiscard]] Session& session() const;

  std::shared_ptr<Session> session_;  // null once moved from
};

/// Names the stage that begins here, in the region that runs on this thread; elsewhere a no-op.
GRADRECOMP_API void begin_stage(std::string_view name);

/// Says that `tensor` is about to be written past the dispatcher: by a raw kernel, a communication
/// library or a pointer. Its version counter grows, by which autograd and replays see that what was
/// saved is gone. In a region, replays know of the write, too.
///
/// Writes by operators need no announcement, nor do those to what a factory has made
/// (torch::ones(), x.new_zeros(), empty_like(x).fill_(1)) before an operator reads it.
GRADRECOMP_API void note_write(const at::Tensor& tensor);

namespace detail {

/// Begins a step that drops everything inside, for checkpoint().
GRADRECOMP_API OpenStep open_dropped();

template <typename Body>
auto run_step(OpenStep step, Body&& body) {
  if constexpr (std::is_void_v<std::invoke_result_t<Body&>>) {
    body();
    close_returned(step);
  } else {
    auto outputs = body();
    close_returned(step);
    return outputs;
  }
}

template <typename Body>
auto run_dropped(Body&& body) {
  return run_step(open_dropped(), std::forward<Body>(body));
}

}  // namespace detail

template <typename Body>
auto Region::run(Body&& body) {
  return detail::run_step(open(), std::forward<Body>(body));
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
