#pragma once

#include <c10/util/Exception.h>

namespace gradrecomp::fuzzing {

/// While it lives, this thread's warnings go nowhere.
class Silence {
 public:
  Silence() : guard_(&handler_) {}

 private:
  struct Handler : c10::WarningHandler {
    void process(const c10::Warning& /*warning*/) override {}
  };
  Handler handler_;
  c10::WarningUtils::WarningHandlerGuard guard_;
};

}  // namespace gradrecomp::fuzzing
