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

/// How a thread dispatches operators: its keys, autocast's included, what autocast casts to where
/// it is on, as a kernel may call operators that autocast takes care of, whether gradients are
/// wanted, by which some kernels choose (mkldnn_rnn_layer), and what kernels are told about
/// precision.
class DispatchState {
 public:
  /// The current state of this thread, whose mode is `mode`.
  explicit DispatchState(const NumericMode& mode);

  [[nodiscard]] const NumericMode& mode() const { return mode_; }
  [[nodiscard]] bool operator==(const DispatchState& other) const;

 private:
  friend class DispatchScope;
  c10::impl::LocalDispatchKeySet keys_;
  c10::SmallVector<std::pair<c10::DeviceType, c10::ScalarType>, 2> casts_;
  bool wants_gradients_;
  NumericMode mode_;
};

/// Lets this thread dispatch as another did. Its mode is NumericScope's.
class DispatchScope {
 public:
  explicit DispatchScope(const DispatchState& state);
  ~DispatchScope();
  DispatchScope(const DispatchScope&) = delete;
  DispatchScope& operator=(const DispatchScope&) = delete;

 private:
  c10::impl::ForceDispatchKeyGuard keys_;
  c10::AutoGradMode gradients_;
  decltype(DispatchState::casts_) casts_before_;
};

}  // namespace gradrecomp::tape
