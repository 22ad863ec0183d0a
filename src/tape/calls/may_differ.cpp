#include "tape/calls/may_differ.h"

namespace gradrecomp::tape {
namespace {

/// The argument of that name; none where the schema has no such.
c10::IValue argument(const Op& op, const char* name) {
  const auto position = op.handle().schema().argumentIndexWithName(name);
  return position ? op.argument(static_cast<std::size_t>(*position)) : c10::IValue();
}

bool is_true(const c10::IValue& value) { return value.isBool() && value.toBool(); }

/// A transposed one is the backward of another, for which cuDNN may use atomics.
bool is_transposed(const Op& op) {
  return op.name().ends_with("_transpose") || is_true(argument(op, "transposed"));
}

bool draws_from_hidden_state(const Op& op) {
  const auto dropout = argument(op, "dropout");
  return is_true(argument(op, "train")) && dropout.isDouble() && dropout.toDouble() > 0;
}

}  // namespace

bool may_differ(Fickle kind, const Op& op, c10::Device device) {
  const NumericMode& mode = op.dispatch_state->mode();
  if (device.is_cpu()) {
    return kind == Fickle::by_threads && mode.num_threads > 1 && !mode.deterministic;
  }
  if (device.is_meta()) return false;
  const bool is_deterministic = mode.deterministic && !mode.deterministic_warns_only;
  switch (kind) {
    case Fickle::no:
      return false;
    case Fickle::by_order:
    case Fickle::by_threads:
      return !is_deterministic;
    case Fickle::by_algorithm:
      if (mode.cudnn_benchmark) return true;
      return is_transposed(op) && !is_deterministic && !mode.cudnn_deterministic;
    case Fickle::by_state:
      return draws_from_hidden_state(op);
  }
  return true;
}

}  // namespace gradrecomp::tape
