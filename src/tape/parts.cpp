#include "parts.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "norm_substitute.h"

// Note [ Parts ]
// ~~~~~~~~~~~~~~
// A normalisation in training makes statistics and, from them, its result. Autograd saves the
// statistics, which are small, so a replay need not compute them again, which is most of the work.
// Such a call is put on the tape as two ops:
//   the statistics   x                          -> mean, inverse deviation
//   the application  x, weight, bias, mean, ... -> result
// The statistics are kept as sources. The application has a substitute, a kernel that reads kept
// statistics; where verification finds no formula of it with the bits of the call, the application
// is replayed by the call. So the planner needs no new notion: a part is an op with a cost.
//
// What follows in place, a residual's addition and a ReLU, the substitute does in the same pass.
// Nothing can want the result in between, as its storage has been written over.

namespace gradrecomp::tape {
namespace {

/// A kind of call and where its arguments and returns are.
struct Norm {
  std::string_view name;
  std::unique_ptr<const NormSubstitute> substitute;
};
constexpr std::int16_t kInput = 0;
constexpr std::int16_t kResult = 0;
constexpr std::int16_t kMean = 1;
constexpr std::int16_t kInverseDeviation = 2;

const NormSubstitute* substitute_for(std::string_view name) {
  static const BatchNormSubstitute batch_norm(1, 2);
  static const LayerNormSubstitute layer_norm(2, 3);
  constexpr std::array<std::string_view, 4> kBatchNorms = {
      "aten::native_batch_norm", "aten::_native_batch_norm_legit", "aten::_batch_norm_with_update",
      "aten::cudnn_batch_norm"};
  if (std::ranges::find(kBatchNorms, name) != kBatchNorms.end()) return &batch_norm;
  return name == "aten::native_layer_norm" ? &layer_norm : nullptr;
}

/// The first read of a call's argument.
const Read* read_of(const Op& call, std::int16_t argument) {
  const auto read = std::ranges::find(call.reads, argument, &Read::argument);
  return read == call.reads.end() ? nullptr : &*read;
}

/// A read of what the call has just returned, by no argument of it.
Read read_back(const at::Tensor& returned, const Tape& tape) {
  Read read;
  read.value = tape.find(returned.storage().unsafeGetStorageImpl());
  read.argument = -1;
  read.geometry = Geometry(returned);
  return read;
}

bool is_plain(const Op& call) {
  return call.replayable && call.rng == nullptr && call.results.size() >= 3 &&
         std::ranges::none_of(call.reads, [](const Read& r) { return r.written || r.scratch; });
}

/// Whether `tensor` is a value of its own that `call` has made.
bool is_made_by(const Op& call, const at::Tensor& tensor, const Tape& tape) {
  if (!tensor.defined() || !tensor.has_storage()) return false;
  const ValueId id = tape.find(tensor.storage().unsafeGetStorageImpl());
  return std::ranges::find(call.results, id, &Result::value) != call.results.end();
}

Op without_results(const Op& call) {
  Op part(call.handle, call.keys);
  part.dispatch_state = call.dispatch_state;
  part.arguments = call.arguments;
  part.reads = call.reads;
  part.stream = call.stream;
  part.stage = call.stage;
  return part;
}

bool is_relu(const Op& op) { return op.handle.schema().name() == "aten::relu_"; }

bool is_addition(const Op& op) {
  if (op.handle.schema().name() != "aten::add_" || op.reads.size() != 2) return false;
  const auto& alpha = op.arguments.back();
  return alpha.isScalar() && alpha.toScalar().equal(1);
}

/// Whether `op` writes the whole of `value`, over the elements that `like` reads.
bool writes_all(const Op& op, ValueId value, const Geometry& like) {
  const Read& target = op.reads.front();
  return op.replayable && op.results.size() == 1 && target.argument == 0 && target.written &&
         target.value == value && target.geometry.shows_like(like);
}

}  // namespace

std::optional<Op> take_part(Op& call, c10::ArrayRef<c10::IValue> returns, Tape& tape) {
  const NormSubstitute* substitute = substitute_for(call.handle.schema().name());
  if (substitute == nullptr || !is_plain(call)) return std::nullopt;
  const at::Tensor result = returns[kResult].toTensor();
  const at::Tensor mean = returns[kMean].toTensor();
  const at::Tensor inverse_deviation = returns[kInverseDeviation].toTensor();
  const Read* input = read_of(call, kInput);
  const bool are_own = is_made_by(call, result, tape) && is_made_by(call, mean, tape) &&
                       is_made_by(call, inverse_deviation, tape);
  if (!are_own || input == nullptr || !substitute->takes(result, mean)) return std::nullopt;
  if (!input->geometry.shows_like(Geometry(result))) return std::nullopt;

  Op part = without_results(call);
  for (const at::Tensor& statistic : {mean, inverse_deviation}) {
    part.reads.push_back(read_back(statistic, tape));
    tape.make_source(part.reads.back().value);
    tape.count_read(part.reads.back().value, false);
  }
  part.substitute = substitute;
  const auto own = std::ranges::find(call.results, kResult, &Result::output);
  part.results.push_back(*own);
  tape.give_to(own->value, static_cast<OpId>(tape.ops().size()) + 1);
  call.results.erase(own);
  return part;
}

FollowingOps following_ops(const Tape& tape, OpId id) {
  const Op& op = tape.ops()[id];
  FollowingOps found;
  ValueId value = op.results.front().value;
  const auto next = [&]() -> const Op* {
    const std::size_t at = static_cast<std::size_t>(id) + 1 + found.count;
    const bool exists = at < tape.ops().size() && tape.values()[value].overwritten_by >= 0;
    return exists && writes_all(tape.ops()[at], value, op.reads.front().geometry) ? &tape.ops()[at]
                                                                                  : nullptr;
  };
  const Op* addition = next();
  if (addition != nullptr && is_addition(*addition)) {
    const Read& residual = addition->reads[1];
    const bool fits =
        residual.value != value && residual.geometry.shows_like(op.reads.front().geometry);
    if (!fits) return found;
    found.residual = 1;
    value = addition->results.front().value;
    ++found.count;
  }
  const Op* rectification = next();
  if (rectification != nullptr && is_relu(*rectification)) {
    found.relu = true;
    ++found.count;
  }
  return found;
}

}  // namespace gradrecomp::tape
