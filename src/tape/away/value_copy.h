#pragma once

#include <c10/core/Storage.h>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// What stands for a kept value while its own memory is gone: its bytes in host memory, or its
/// numbers rounded.
class ValueCopy {
 public:
  virtual ~ValueCopy() = default;

  /// The original may be freed.
  virtual void leave() = 0;
  /// A storage like the original, on the same device. Usable after arrive().
  virtual c10::Storage bring_back() = 0;
  /// The current stream waits until what bring_back() gave is there.
  virtual void arrive() const = 0;
  /// What bring_back() gave may be freed.
  virtual void give_up() = 0;
};

}  // namespace gradrecomp::tape
