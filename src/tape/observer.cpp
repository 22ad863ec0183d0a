#include "gradrecomp/tape/observer.h"

namespace gradrecomp::tape {
namespace {
thread_local int own_work_depth = 0;
}

bool in_own_work() noexcept { return own_work_depth > 0; }
OwnWork::OwnWork() noexcept { ++own_work_depth; }
OwnWork::~OwnWork() { --own_work_depth; }

}  // namespace gradrecomp::tape
