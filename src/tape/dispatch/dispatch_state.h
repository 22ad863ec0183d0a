#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/GradMode.h>
#include <c10/core/ScalarType.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>

#include <utility>

#include "gradrecomp/version.h"
#include "tape/dispatch/numeric_mode.h"

namespace gradrecomp::tape {

/// How a thread dispatches operators.
class DispatchState {
 public:
  using Casts = c10::SmallVector<std::pair<c10::DeviceType, c10::ScalarType>, 2>;

  /// The current state of this thread, whose mode is `mode`.
  explicit DispatchState(const NumericMode& mode);

  /// Autocast's included.
  [[nodiscard]] const c10::impl::LocalDispatchKeySet& keys() const { return keys_; }
  /// What autocast casts to where it is on, as a kernel may call operators that it takes care of.
  [[nodiscard]] const Casts& casts() const { return casts_; }
  /// Some kernels choose by it (mkldnn_rnn_layer).
  [[nodiscard]] bool wants_gradients() const { return wants_gradients_; }
  /// What kernels are told about precision.
  [[nodiscard]] const NumericMode& mode() const { return mode_; }
  [[nodiscard]] bool operator==(const DispatchState& other) const;
  /// Whether this thread surely dispatches so at present, whatever its mode. In the order of
  /// 0.01 us.
  [[nodiscard]] bool lasts_without_autocast() const;

 private:
  c10::impl::LocalDispatchKeySet keys_;
  Casts casts_;
  bool wants_gradients_;
  NumericMode mode_;
};

/// Lets this thread dispatch as another did. Its mode is NumericScope's.
///
/// Autocast's cache is off: its lock is held while a weight is cast. That cast is recorded and may
/// set off replays, which would then wait for the same lock.
class DispatchScope {
 public:
  explicit DispatchScope(const DispatchState& state);
  ~DispatchScope();
  DispatchScope(const DispatchScope&) = delete;
  DispatchScope& operator=(const DispatchScope&) = delete;

 private:
  c10::impl::ForceDispatchKeyGuard keys_;
  c10::AutoGradMode gradients_;
  c10::SmallVector<std::pair<c10::DeviceType, c10::ScalarType>, 16> casts_before_;
  bool keeps_casts_before_;
};

}  // namespace gradrecomp::tape
