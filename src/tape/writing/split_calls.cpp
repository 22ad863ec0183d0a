#include "tape/writing/split_calls.h"

#include <c10/util/strides.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "tape/dispatch/op_traits.h"
#include "tape/substitutes/norm_substitute.h"
#include "tape/substitutes/packed_form.h"

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
// What follows, a residual's addition and a ReLU, the substitute does in the same pass where the
// ops join; see Note [ Joined ops ] in pointwise_step.cpp.
//
// Indices of max pooling and masks of dropout have packed forms, an eighth of their size. The call
// is put on the tape as if it had made the packed form, and an op after it the output from that:
//   the call         x                          -> result, packed form
//   the unpacking    packed form                -> indices or mask
// So keeping the packed form is one more choice of the planner, like keeping any value that
// autograd did not save.
//
// A mask that bernoulli_() draws into new memory, as LibTorch's dropout does on CPU, is packed in
// the same way, though the call returns no new value:
//   the call         memory                     -> packed form
//   the unpacking    packed form                -> mask, over that memory
// In the forward pass the mask takes over the memory, which nothing else has read. A replay of the
// unpacking does not need it, and makes the mask in memory of its own, as the simulator counts an
// op that overwrites what no replay has made.

namespace gradrecomp::tape {
namespace {

constexpr std::int16_t kInput = 0;
constexpr std::int16_t kResult = 0;
constexpr std::int16_t kMean = 1;
constexpr std::int16_t kInverseDeviation = 2;
constexpr std::int16_t kPacked = 1;  // the indices, or the mask

/// A substitute for a normalisation's result; null for other calls.
const NormSubstitute* norm_substitute(Norm norm) {
  static const BatchNormSubstitute batch_norm(1, 2);
  static const LayerNormSubstitute layer_norm(2, 3);
  if (norm == Norm::batch) return &batch_norm;
  if (norm == Norm::layer) return &layer_norm;
  return nullptr;
}

constexpr std::string_view kMaxPool = "aten::max_pool2d_with_indices";
constexpr std::string_view kDropout = "aten::native_dropout";
constexpr std::string_view kDrawInPlace = "aten::bernoulli_";

/// The first read of a call's argument.
const Read* read_of(const Op& call, std::int16_t argument) {
  const auto read = std::ranges::find(call.reads, argument, &Read::argument);
  return read == call.reads.end() ? nullptr : &*read;
}

/// A read of what the call has just returned, by no argument of it.
Read read_back(const at::Tensor& returned, Tape& tape) {
  Read read;
  read.value = tape.find(returned);
  read.argument = -1;
  read.geometry = tape.geometry_of(returned);
  return read;
}

bool writes_nothing(const Op& call) {
  return std::ranges::none_of(call.reads, [](const Read& r) { return r.written || r.scratch; });
}

/// Whether `tensor` is a value of its own that `call` has made.
bool is_made_by(const Op& call, const at::Tensor& tensor, const Tape& tape) {
  if (!tensor.defined() || !tensor.has_storage()) return false;
  const ValueId id = tape.find(tensor);
  return std::ranges::find(call.results, id, &Result::value) != call.results.end();
}

/// Whether what `call` reads is of its input's type or of float32, as kernels take it.
bool reads_floats(const Op& call) {
  const auto type = read_of(call, kInput)->geometry->scalar_type();
  return std::ranges::all_of(call.reads, [&](const Read& read) {
    const auto own = read.geometry->scalar_type();
    return own == type || own == c10::ScalarType::Float;
  });
}

/// Whether kernels find weight and bias as they look for them: one element after the other.
bool reads_dense_parameters(const Op& call) {
  return std::ranges::all_of(call.reads, [](const Read& read) {
    const Geometry& shape = *read.geometry;
    const bool is_row = shape.strides() == c10::contiguous_strides(shape.sizes());
    return read.argument == kInput || (is_row && shape.shows_its_bytes());
  });
}

/// An op for a part of `call`, without reads and results.
Op part_of(const Op& call) {
  Op part(*call.traits, call.keys);
  part.dispatch_state = call.dispatch_state;
  part.kept_stream = call.kept_stream;
  part.stage = call.stage;
  return part;
}

/// Makes `part` the maker of what `call` has made and `returned`.
void move_result(Op& call, const at::Tensor& returned, Op& part, Tape& tape) {
  const auto own = std::ranges::find(call.results, tape.find(returned), &Result::value);
  part.results.push_back({.value = own->value, .output = 0});
  tape.values()[own->value].producer = static_cast<OpId>(tape.ops().size()) + 1;
  call.results.erase(own);
}

std::optional<Part> take_application(Op& call, c10::ArrayRef<c10::IValue> returns,
                                     TapeWriter& writer) {
  Tape& tape = writer.tape();
  const auto substitute = norm_substitute(call.traits->norm);
  const Read* input = read_of(call, kInput);
  if (substitute == nullptr || input == nullptr || call.rng != nullptr) return std::nullopt;
  const at::Tensor result = returns[kResult].toTensor();
  const std::array statistics{returns[kMean].toTensor(), returns[kInverseDeviation].toTensor()};
  const auto is_own = [&](const at::Tensor& tensor) { return is_made_by(call, tensor, tape); };
  const bool fits = is_own(result) && std::ranges::all_of(statistics, is_own) &&
                    substitute->takes(result, statistics.front()) && reads_floats(call) &&
                    reads_dense_parameters(call) && input->geometry->shows_like(Geometry(result));
  if (!fits) return std::nullopt;

  Part part{part_of(call), {}};
  part.op.arguments = call.arguments;
  part.op.reads = call.reads;
  for (const at::Tensor& statistic : statistics) {
    part.op.reads.push_back(read_back(statistic, tape));
    tape.make_source(part.op.reads.back().value);
    writer.count_read(part.op, part.op.reads.back());
  }
  part.op.substitute = substitute;
  move_result(call, result, part.op, tape);
  return part;
}

std::shared_ptr<const PackedForm> packed_form_of(const Op& call, const at::Tensor& output) {
  const std::string_view name = call.name();
  const Read* input = read_of(call, kInput);
  if (name == kMaxPool && input->geometry->sizes().size() == 4) {
    return packed_indices(call, input->geometry->sizes(), output);
  }
  return name == kDropout ? packed_mask(output) : nullptr;
}

/// Whether it returns a result and what can be packed.
bool returns_packable(const Op& call) {
  const std::string_view name = call.name();
  return name == kMaxPool || name == kDropout;
}

/// Takes output `output` out of `call`, which makes its packed form instead.
Part unpacking(Op& call, c10::ArrayRef<c10::IValue> returns, std::int16_t output,
               const PackedForm* form, TapeWriter& writer) {
  const at::Tensor returned = returns[output].toTensor();
  Tape& tape = writer.tape();
  Part part{part_of(call), form->pack(returned)};
  const ValueId packed = writer.add_value(part.made, static_cast<OpId>(tape.ops().size()));
  part.op.reads.push_back(read_back(part.made, tape));
  writer.count_read(part.op, part.op.reads.back());
  part.op.substitute = form;
  part.op.method.formula = 0;
  move_result(call, returned, part.op, tape);
  call.results.push_back({.value = packed, .output = output, .packed = true});
  call.packed_form = form;
  return part;
}

std::optional<Part> take_unpacking(Op& call, c10::ArrayRef<c10::IValue> returns,
                                   TapeWriter& writer) {
  if (!returns_packable(call)) return std::nullopt;
  if (call.results.size() != 2 || read_of(call, kInput) == nullptr) return std::nullopt;
  const at::Tensor output = returns[kPacked].toTensor();
  const bool is_own = is_made_by(call, output, writer.tape());
  const auto form = is_own ? packed_form_of(call, output) : nullptr;
  if (form == nullptr) return std::nullopt;
  return unpacking(call, returns, kPacked, writer.tape().keep(form), writer);
}

/// Whether `call` has filled memory that was made for it, from end to end, and that no other op has
/// looked at.
bool fills_new_memory(const Op& call, const Tape& tape) {
  if (call.results.size() != 1 || call.results.front().read < 0) return false;
  const Read& written = call.reads[call.results.front().read];
  const Value& memory = tape.values()[written.value];
  return memory.uninitialized && memory.producer >= 0 && memory.num_reads == 1 &&
         !memory.snapshot && written.geometry->fills(memory.bytes) &&
         tape.values()[call.results.front().value].overwrites == written.value;
}

std::optional<Part> take_drawn_mask(Op& call, c10::ArrayRef<c10::IValue> returns,
                                    TapeWriter& writer) {
  if (call.name() != kDrawInPlace || !fills_new_memory(call, writer.tape())) return std::nullopt;
  const auto form = packed_mask(returns[kResult].toTensor());
  if (form == nullptr) return std::nullopt;
  return unpacking(call, returns, kResult, writer.tape().keep(form), writer);
}

}  // namespace

std::optional<Part> take_part(Op& call, c10::ArrayRef<c10::IValue> returns, TapeWriter& writer) {
  if (!writes_nothing(call)) return take_drawn_mask(call, returns, writer);
  // A result that cannot be made again can be held packed, such as a mask drawn for a captured
  // graph.
  if (!call.replayable) return take_unpacking(call, returns, writer);
  if (auto part = take_application(call, returns, writer)) return part;
  return take_unpacking(call, returns, writer);
}

}  // namespace gradrecomp::tape
