#include "tape/replay/sweep_kernels.h"

#include <utility>

#include "tape/aten/below_recording.h"
#include "tape/aten/stream_scope.h"

namespace gradrecomp::tape {

c10::Storage SweepKernels::run(OpId id, int num_joined) {
  const Op& op = tape_.ops()[id];
  if (op.substitute == nullptr) {
    const auto step = step_of(tape_, op);
    return pass_of(id, 1 + num_joined, *step).run(inputs_.storage(op, op.reads[step->input]));
  }
  const Followers followers = followers_of(id, num_joined);
  const at::Tensor made = substitute(id, op.method.formula, followers);
  const int num_done = followers.count();
  join(id + 1 + num_done, num_joined - num_done, made.storage());
  return made.storage();
}

void SweepKernels::join(OpId first, int count, const c10::Storage& made) {
  if (count > 0) pass_of(first, count, *step_after(tape_, first)).run_in_place(made);
}

PointwisePass SweepKernels::pass_of(OpId first, int count, const PointwiseStep& step) {
  const Op& op = tape_.ops()[first];
  PointwisePass pass(op.reads[step.input].geometry->scalar_type(), op.stream());
  pass.add(step, operand_of(op, step), op.method.formula);
  for (OpId id = first + 1; id < first + count; ++id) {
    const Op& next = tape_.ops()[id];
    const auto next_step = step_after(tape_, id);
    pass.add(*next_step, operand_of(next, *next_step), next.method.formula);
  }
  return pass;
}

at::Tensor SweepKernels::operand_of(const Op& op, const PointwiseStep& step) {
  if (step.operand < 0) return {};
  return inputs_.tensor(op, op.reads[step.operand]);
}

Followers SweepKernels::followers_of(OpId id, int num_joined) {
  Followers followers;
  if (!tape_.ops()[id].substitute->has_followers()) return followers;
  const OpId last = id + num_joined;
  OpId next = id + 1;
  if (next <= last) {
    const auto step = step_after(tape_, next);
    if (step->kind == kernels::StepKind::add) {
      followers.residual = operand_of(tape_.ops()[next++], *step);
    }
  }
  followers.relu = next <= last && step_after(tape_, next)->kind == kernels::StepKind::relu;
  return followers;
}

at::Tensor SweepKernels::substitute(OpId id, int formula, const Followers& followers) {
  const Op& op = tape_.ops()[id];
  std::vector<at::Tensor> tensors;
  for (const Read& read : op.reads) tensors.push_back(inputs_.tensor(op, read));
  return run_substitute(op, tensors, formula, followers);
}

at::Tensor run_substitute(const Op& op, const std::vector<at::Tensor>& tensors, int formula,
                          const Followers& followers) {
  const BelowRecording below;
  const StreamScope stream(op.stream());
  return op.substitute->run(op, tensors, formula, followers);
}

}  // namespace gradrecomp::tape
