#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "gradrecomp/export.h"
#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"
#include "gradrecomp/region/options.h"
#include "gradrecomp/region/outputs.h"

namespace gradrecomp {

class Session;
class Step;

/// What the last step through a region did.
struct StepReport {
  bool profiled = false;                 ///< it ran without a plan, and was logged to make one
  bool followed_plan = false;            ///< its whole op sequence was the plan's
  std::int64_t num_ops = 0;              ///< recorded
  std::int64_t num_replayed_ops = 0;     ///< replays in its backward, once that has ended
  std::int64_t num_substituted_ops = 0;  ///< of these, by kernels in place of their calls
  double replay_seconds = 0;
  std::int64_t offloaded_bytes = 0;  ///< that have left for host memory
};

/// A part of the forward pass in which a plan decides what stays in memory for backward.
///
///   gradrecomp::Region region({.max_overhead = 0.05});
///   auto logits = region.run([&] { return model->forward(images); });
///   criterion(logits, labels).backward();
///
/// The first step of every new op sequence is profiled and verified; later steps follow its plan.
/// Under no_grad the callable just runs, and so it does inside another region.
/// Threads:    one thread at a time runs a region; its backward may run on any.
/// Guarantees: gradients, buffers and random state are those of the plain step, bit for bit.
class GRADRECOMP_API Region {
 public:
  /// Throws:  c10::ValueError if an option is out of range or contradicts another.
  explicit Region(Options options = {});

  /// Runs `body` as one step of the region and returns what it returns.
  ///
  /// Throws: what `body` throws; the thread's state is then as it was before.
  template <typename Body>
  auto run(Body&& body);

  /// The plan the last step followed, or the one its backward made.
  /// Throws:  c10::Error if no step has been profiled yet.
  [[nodiscard]] const plan::Plan& plan() const;
  /// The profiled op graph that plan() was made for.
  [[nodiscard]] const plan::Graph& graph() const;
  [[nodiscard]] bool has_plan() const;
  [[nodiscard]] const Options& options() const;
  [[nodiscard]] const StepReport& last_step() const;
  [[nodiscard]] std::int64_t num_plans() const;

  /// One line: policy, predicted activation peak, its share of plain, both overheads.
  [[nodiscard]] std::string brief_report() const;
  /// A table with one row per stage.
  [[nodiscard]] std::string full_report() const;

 private:
  std::shared_ptr<Session> session_;
};

/// Names the stage that begins here, in the region that runs on this thread; elsewhere a no-op.
GRADRECOMP_API void begin_stage(std::string_view name);

/// Runs `body` in a region of its own that drops everything inside: torch.utils.checkpoint's
/// verdict without its second forward. See nn/checkpoint.h for the user's form.
template <typename Body>
auto run_dropped(Body&& body);

namespace detail {

GRADRECOMP_API bool region_wanted();
GRADRECOMP_API std::unique_ptr<Step, void (*)(Step*)> open_step(
    const std::shared_ptr<Session>& session);
GRADRECOMP_API std::unique_ptr<Step, void (*)(Step*)> open_dropping_step();
GRADRECOMP_API void close_step(Step& step, const std::vector<at::Tensor*>& outputs);

template <typename Body>
auto run_step(std::unique_ptr<Step, void (*)(Step*)> step, Body&& body) {
  if constexpr (std::is_void_v<std::invoke_result_t<Body>>) {
    body();
    close_step(*step, {});
  } else {
    auto outputs = body();
    std::vector<at::Tensor*> tensors;
    for_each_tensor(outputs, [&](at::Tensor& tensor) { tensors.push_back(&tensor); });
    close_step(*step, tensors);
    return outputs;
  }
}

}  // namespace detail

template <typename Body>
auto Region::run(Body&& body) {
  if (!detail::region_wanted()) return body();
  return detail::run_step(detail::open_step(session_), std::forward<Body>(body));
}

template <typename Body>
auto run_dropped(Body&& body) {
  if (!detail::region_wanted()) return body();
  return detail::run_step(detail::open_dropping_step(), std::forward<Body>(body));
}

}  // namespace gradrecomp
