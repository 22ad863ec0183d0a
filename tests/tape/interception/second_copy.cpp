// Loaded by interceptor_test: a module with a copy of GradRecomp of its own.
#include "tape/record/recorder.h"

extern "C" __attribute__((visibility("default"))) void record_by_second_copy() {
  const gradrecomp::tape::Recorder recorder(std::make_shared<gradrecomp::tape::Tape>());
}
