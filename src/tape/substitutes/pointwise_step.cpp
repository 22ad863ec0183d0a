#include "tape/substitutes/pointwise_step.h"

#include <ATen/ATen.h>

#include "gradrecomp/kernels/table.h"
#include "tape/dispatch/op_traits.h"

// Note [ Joined ops ]
// ~~~~~~~~~~~~~~~~~~~
// Where one op after the other works element by element, `relu(bn(x))` or `dropout(x) + y`, a
// replay need not store what is between them. A pointwise op joins the op right before it if it
// reads that op's only result: its replay then is a step of a kernel that works in place on what
// the op before it has made, or one more step of the same pass over memory. That is done in a sweep
// in which nothing else wants what is between; see Sweep::joins_in() and its twin in the simulator.
//
// All steps of a kind are equal to LibTorch's operators to the bit by what they compute, but for
// how a scalar is rounded to 16 bits, so verification compares each op with its step on thousands
// of numbers, whatever the shape of the op. The kernel rounds between steps as storing would, so
// steps that are right one by one are right in a row.
//
// The steps are a fixed set that one kernel chooses from as it runs. Kernels made to measure would
// save it the choice, one for thousands of elements that go through memory, and need a compiler in
// every program, which on CUDA is NVRTC.

namespace gradrecomp::tape {
namespace {

using kernels::StepKind;

bool is_one(const c10::IValue& number) { return number.isScalar() && number.toScalar().equal(1); }

/// As LibTorch rounds a number that it computes with in float.
float as_float(const c10::Scalar& number) {
  if (number.type() == at::kUInt64) return static_cast<float>(number.toUInt64());
  return number.isIntegral(/*includeBool=*/true) ? static_cast<float>(number.toLong())
                                                 : static_cast<float>(number.toDouble());
}

/// add(x, y, alpha) with an alpha that does nothing; other operators have none.
bool scales_nothing(const Op& op, Pointwise kind) {
  return kind != Pointwise::add || is_one(op.arguments.back());
}

/// Whether both show elements in the same order, of whatever type.
bool in_one_order(const Geometry& a, const Geometry& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides();
}

/// Whether `other` is one number that the host can read at once.
bool is_number(const Geometry& other) { return other.sizes().empty() && other.is_on_cpu(); }

StepKind scalar_kind(Pointwise kind) {
  if (kind == Pointwise::div) return StepKind::div_scalar;
  return kind == Pointwise::add ? StepKind::add_scalar : StepKind::mul_scalar;
}

bool takes_scalar(StepKind kind) {
  return kind == StepKind::add_scalar || kind == StepKind::mul_scalar ||
         kind == StepKind::div_scalar;
}

/// In how many ways LibTorch may round a scalar.
int num_roundings(kernels::Dtype dtype) { return dtype == kernels::Dtype::float32 ? 1 : 2; }

std::optional<PointwiseStep> with_tensor(const Op& op, Pointwise kind, std::int32_t input) {
  PointwiseStep step{.input = input, .operand = 1 - input};
  const Read& x = op.reads[input];
  const Read& other = op.reads[step.operand];
  if (other.value == x.value) return std::nullopt;  // kernels may write over what they read
  const bool adds = kind == Pointwise::add;
  if (kind == Pointwise::div && (input != 0 || !is_number(*other.geometry))) return std::nullopt;
  if (is_number(*other.geometry)) {
    if (c10::isComplexType(other.geometry->scalar_type())) return std::nullopt;
    step.kind = scalar_kind(kind);
  } else if (other.geometry->shows_like(*x.geometry)) {
    step.kind = adds ? StepKind::add : StepKind::mul;
  } else {
    const bool is_mask = !adds && other.geometry->scalar_type() == c10::ScalarType::Bool &&
                         in_one_order(*other.geometry, *x.geometry);
    if (!is_mask) return std::nullopt;
    step.kind = StepKind::mask;
  }
  return step;
}

std::optional<PointwiseStep> with_scalar(const Op& op, Pointwise kind, std::int32_t input) {
  const c10::IValue number = op.argument(1);
  if (!number.isScalar()) return std::nullopt;
  const c10::Scalar scalar = number.toScalar();
  if (scalar.isComplex()) return std::nullopt;
  return PointwiseStep{.kind = scalar_kind(kind), .input = input, .scalar = as_float(scalar)};
}

bool has_kernels(const Op& op) {
  const kernels::Table* table =
      kernels::table(op.stream() ? op.stream()->device_type() : c10::DeviceType::CPU);
  return table != nullptr && table->apply_chain != nullptr;
}

/// Whether kernels can turn what `x` reads into the only result, elements of one type each.
bool makes_result_from(const Tape& tape, const Op& op, std::int32_t input) {
  const Read& x = op.reads[input];
  const Result& result = op.results.front();
  const bool is_own = result.read == input || (result.read < 0 && result.output == 0);
  const auto bytes = tape.values()[x.value].bytes;
  return is_own && !result.packed && x.element < 0 && !x.scratch && !x.geometry->sizes().empty() &&
         kernels::dtype_of(x.geometry->scalar_type()) && x.geometry->shows_its_bytes() &&
         bytes > 0 && tape.values()[result.value].bytes == bytes && x.geometry->fills(bytes);
}

}  // namespace

std::optional<PointwiseStep> step_on(const Tape& tape, const Op& op, std::int32_t input) {
  const Pointwise kind = op.traits->pointwise;
  if (kind == Pointwise::no || !op.replayable || op.results.size() != 1) return std::nullopt;
  // LibTorch flushes denormals in its vectors and not in what is left over, and by thread.
  if (!has_kernels(op) || !op.dispatch_state->mode().has_usual_floats()) return std::nullopt;
  if (!makes_result_from(tape, op, input) || !scales_nothing(op, kind)) return std::nullopt;
  if (kind == Pointwise::relu) return PointwiseStep{.input = input};
  return op.reads.size() == 2 ? with_tensor(op, kind, input) : with_scalar(op, kind, input);
}

std::optional<PointwiseStep> step_of(const Tape& tape, const Op& op) {
  if (op.traits->pointwise == Pointwise::no) return std::nullopt;
  for (std::int32_t i = 0; i < std::ssize(op.reads); ++i) {
    if (auto step = step_on(tape, op, i)) return step;
  }
  return std::nullopt;
}

std::optional<PointwiseStep> step_after(const Tape& tape, const Op& op, const Op& before) {
  if (before.results.size() != 1 || before.stream() != op.stream()) return std::nullopt;
  if (before.dispatch_state->mode() != op.dispatch_state->mode()) return std::nullopt;
  for (std::int32_t i = 0; i < std::ssize(op.reads); ++i) {
    if (op.reads[i].value == before.results.front().value) return step_on(tape, op, i);
  }
  return std::nullopt;
}

std::optional<PointwiseStep> step_after(const Tape& tape, OpId id) {
  if (id == 0) return std::nullopt;
  return step_after(tape, tape.ops()[id], tape.ops()[id - 1]);
}

ReplayMethod still_valid(const ReplayMethod& verified, const Tape& tape, const Op& op) {
  const bool has_other_floats = !op.dispatch_state->mode().has_usual_floats();
  if (op.substitute != nullptr)
    return has_other_floats ? ReplayMethod{} : ReplayMethod{.formula = verified.formula};
  if (verified.formula < 0 || !step_of(tape, op)) return {};
  const bool joins = verified.joins && step_after(tape, op, tape.ops().back()).has_value();
  return {.formula = verified.formula, .joins = joins};
}

int num_formulas(const PointwiseStep& step, kernels::Dtype dtype) {
  if (!takes_scalar(step.kind)) return 1;
  return num_roundings(dtype) * (step.kind == StepKind::div_scalar ? 2 : 1);
}

kernels::Step kernel_step(const PointwiseStep& step, const at::Tensor& operand,
                          kernels::Dtype dtype, int formula) {
  kernels::Step made{.kind = step.kind};
  if (takes_scalar(step.kind)) {
    made.scalar = operand.defined() ? as_float(operand.item()) : static_cast<float>(step.scalar);
    if (formula % num_roundings(dtype) > 0) made.scalar = kernels::rounded(made.scalar, dtype);
    if (formula >= num_roundings(dtype) && step.kind == StepKind::div_scalar) {
      made.kind = StepKind::mul_scalar;
      made.scalar = 1.0F / made.scalar;
    }
  } else if (operand.defined()) {
    made.operand = operand.const_data_ptr();
  }
  return made;
}

}  // namespace gradrecomp::tape
