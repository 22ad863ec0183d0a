#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Stream.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gradrecomp/version.h"
#include "tape/aten/rng_state.h"
#include "tape/dispatch/dispatch_state.h"
#include "tape/dispatch/op_traits.h"
#include "tape/geometry/geometry.h"
#include "tape/substitute.h"

namespace gradrecomp::tape {

using ValueId = std::int32_t;  ///< position on the tape; -1: none
using OpId = std::int32_t;     ///< position on the tape; -1: none

/// One tensor argument of a recorded operator: which value it read, and through what geometry.
struct Read {
  const Geometry* geometry = nullptr;  ///< of those that the tape keeps
  ValueId value = -1;
  std::int32_t element = -1;  ///< position in a tensor list; -1: the argument is one tensor
  std::int16_t argument = 0;  ///< -1: none, only a substitute reads it
  bool written = false;       ///< the operator wrote it in place
  bool requires_grad = false;
  bool has_gradient = false;  ///< a leaf that backward adds to, instead of giving it one
  bool scratch = false;       ///< written behind the schema's back: replay hands it a clone
  bool blind = false;         ///< its content is unknown, so no replay can read it
};

/// One value a recorded operator made.
struct Result {
  ValueId value = -1;
  std::int32_t element = -1;
  std::int32_t read = -1;    ///< position in Op::reads of the written argument
  std::int16_t output = -1;  ///< position among the returns; -1: written in place, see `read`
  bool packed = false;       ///< it is the packed form of that output
};

/// One recorded operator call, enough to run it again. Holds no tensor that has a grad_fn.
///
/// Small calls need no memory beside it, and a node of the tape's deque has room for two.
struct Op {
  Op(const OpTraits& op, c10::DispatchKeySet below) : traits(&op), keys(below) {}

  const OpTraits* traits;                         ///< of its operator; they outlast that
  c10::DispatchKeySet keys;                       ///< below the recorder
  const DispatchState* dispatch_state = nullptr;  ///< of the recording thread; the tape keeps it
  /// The last ones, from the first that is no tensor on; tensors among them taken out.
  c10::SmallVector<c10::IValue, 1> arguments;
  c10::SmallVector<Read, 2> reads;
  c10::SmallVector<Result, 1> results;
  std::unique_ptr<const RngState> rng;       ///< before the call; null if nothing was drawn
  const c10::Stream* kept_stream = nullptr;  ///< on devices that have streams; the tape keeps it
  const Substitute* substitute = nullptr;    ///< of a part of a call; null for whole calls
  const PackedForm* packed_form = nullptr;   ///< makes the `packed` result; null: none is
  ReplayMethod method;                       ///< as verified
  std::int32_t stage = 0;
  std::int32_t num_wanted_results = 0;  ///< dropped results that a handle or a wanted op needs
  std::int32_t sweep = 0;               ///< last replay sweep that ran it
  bool replayable = true;

  /// How many arguments come before `arguments`.
  [[nodiscard]] std::size_t first_argument() const {
    return traits->num_arguments() - arguments.size();
  }

  /// The argument at that place; none for a tensor, and beyond the last.
  [[nodiscard]] c10::IValue argument(std::size_t place) const {
    const std::size_t first = first_argument();
    return place >= first && place - first < arguments.size() ? arguments[place - first]
                                                              : c10::IValue();
  }

  [[nodiscard]] std::optional<c10::Stream> stream() const {
    return kept_stream == nullptr ? std::nullopt : std::optional(*kept_stream);
  }

  [[nodiscard]] const std::string& name() const { return traits->name; }
  [[nodiscard]] const c10::OperatorHandle& handle() const { return traits->handle; }

  /// Whether it can run again.
  [[nodiscard]] bool can_replay() const {
    return replayable && !traits->has_departed.load(std::memory_order_acquire);
  }

  /// Whether replays make its only result, in memory of its own, by a kernel instead of the call.
  [[nodiscard]] bool has_kernel() const { return method.formula >= 0 && results.front().read < 0; }

  /// A part whose substitute has not been found to have the bits of the call.
  [[nodiscard]] bool has_open_formula() const {
    return substitute != nullptr && method.formula < 0;
  }
};

static_assert(sizeof(Op) <= 208, "steps have thousands");

/// Whether `op` may read more of a value than `read` shows. A written value keeps all of its
/// content that the write does not reach.
inline bool reads_whole(const Op& op, const Read& read) {
  return read.written || op.traits->reads_beyond;
}

/// Measured for one op; 0 where that was not possible.
struct ReplayTimes {
  double seconds = 0;         ///< of its replay
  double joined_seconds = 0;  ///< of its replay in the pass of the op right before it
};

}  // namespace gradrecomp::tape
