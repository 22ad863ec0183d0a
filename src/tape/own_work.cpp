#include "tape/own_work.h"

#include <torch/csrc/autograd/graph_task.h>

namespace gradrecomp::tape {
namespace {
thread_local int own_work_depth = 0;
thread_local const Tape* last_tape = nullptr;
thread_local int last_task = -1;  // the backward pass that touched it; -1: none did
}  // namespace

// A thread of autograd's has the tape of an older pass, until this one asks for something.
const Tape* touched_last() noexcept {
  const int task = torch::autograd::get_current_graph_task_id();
  const bool is_outdated = last_task >= 0 && task >= 0 && task != last_task;
  return is_outdated ? nullptr : last_tape;
}

void touch(const Tape* tape) noexcept {
  last_tape = tape;
  last_task = torch::autograd::get_current_graph_task_id();
}

bool in_own_work() noexcept { return own_work_depth > 0; }
OwnWork::OwnWork() noexcept { ++own_work_depth; }
OwnWork::~OwnWork() { --own_work_depth; }

}  // namespace gradrecomp::tape
