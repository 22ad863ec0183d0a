#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "session.h"

namespace gradrecomp {

/// What remains of a step after its region closed: shared by the hooks of its outputs and their
/// callback.
struct ClosedStep {
  std::shared_ptr<Session> session;  // null for a dropping step
  std::shared_ptr<tape::Tape> tape;
  std::shared_ptr<profile::StepLog> log;  // null unless the step is profiled
  Session::Sequence sequence;
  int last_graph_task = -1;

  /// False if the backward pass of that number has begun before.
  bool backward_begins(int graph_task);
  void backward_ends();
};

/// One run of a region, from its first operator to the hooks of its outputs.
class Step {
 public:
  /// A step under the plan of `session`, or profiled. A null session drops everything.
  explicit Step(std::shared_ptr<Session> session);
  ~Step();
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  /// The step that runs on this thread, or null.
  static Step* current() noexcept;

  void begin_stage(std::string_view name);
  /// Stops recording, drops, and hooks the nodes of `outputs`.
  void close(const std::vector<at::Tensor*>& outputs);

 private:
  tape::Advice left_plan(std::size_t call, std::uint64_t hash);
  void begin_profile();
  void name_plan(const tape::Advice& advice);
  void close_window();

  std::shared_ptr<Session> session_;
  std::shared_ptr<tape::Tape> tape_;
  std::shared_ptr<profile::StepLog> log_;
  std::unique_ptr<tape::Recorder> recorder_;
  std::uint64_t first_node_;  // that autograd makes in this step
  Step* outer_;
};

}  // namespace gradrecomp
