#include "gradrecomp/tape/observer.h"

namespace gradrecomp::tape {
namespace {
thread_local int own_work_depth = 0;
thread_local const Tape* last_tape = nullptr;
}  // namespace

const Tape* touched_last() noexcept { return last_tape; }
void touch(const Tape* tape) noexcept { last_tape = tape; }

bool in_own_work() noexcept { return own_work_depth > 0; }
OwnWork::OwnWork() noexcept { ++own_work_depth; }
OwnWork::~OwnWork() { --own_work_depth; }

}  // namespace gradrecomp::tape
