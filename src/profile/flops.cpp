#include "profile/flops.h"

#include <c10/util/accumulate.h>

#include <string>
#include <unordered_map>

namespace gradrecomp::profile {
namespace {

using tape::Op;
using tape::Read;
using tape::Tape;
using Formula = Flops (*)(const Op&, const Tape&);

const Read* find_read(const Op& op, int argument) {
  for (const Read& read : op.reads) {
    if (read.argument == argument) return &read;
  }
  return nullptr;
}

double numel(c10::IntArrayRef sizes) { return static_cast<double>(c10::multiply_integers(sizes)); }

// Elements of the op's first result, which lies in a storage of its own.
double result_numel(const Op& op, const Tape& tape) {
  if (op.results.empty() || op.reads.empty()) return 0;
  const auto bytes = tape.values()[op.results.front().value].bytes;
  return static_cast<double>(bytes) / c10::elementSize(op.reads.front().geometry->scalar_type());
}

// Each operand's gradient is one product of the same size as the forward one.
Flops product(double forward, const Read& left, const Read& right) {
  return {forward, forward * (left.requires_grad + right.requires_grad)};
}

template <int kLeft, int kRight>
Flops matrix_product(const Op& op, const Tape& /*tape*/) {
  const Read* left = find_read(op, kLeft);
  const Read* right = find_read(op, kRight);
  if (!left || !right || left->geometry->sizes().empty()) return {};
  return product(2 * numel(left->geometry->sizes()) * right->geometry->sizes().back(), *left,
                 *right);
}

// weight [out, in], unlike the other products' right operand.
Flops linear(const Op& op, const Tape& /*tape*/) {
  const Read* input = find_read(op, 0);
  const Read* weight = find_read(op, 1);
  if (!input || !weight) return {};
  return product(2 * numel(input->geometry->sizes()) * weight->geometry->sizes().front(), *input,
                 *weight);
}

// Every output element (input element, if transposed) meets one filter of weight.sizes()[1:].
Flops convolution(const Op& op, const Tape& tape) {
  const Read* input = find_read(op, 0);
  const Read* weight = find_read(op, 1);
  if (!input || !weight) return {};
  constexpr std::size_t kTransposed = 6;
  const c10::IValue argument = op.argument(kTransposed);
  const bool transposed = argument.isBool() && argument.toBool();
  const double places = transposed ? numel(input->geometry->sizes()) : result_numel(op, tape);
  return product(2 * places * numel(weight->geometry->sizes().slice(1)), *input, *weight);
}

// query [.., S, E], key [.., T, E], value [.., T, V]: scores and weighted sum. Backward makes the
// scores again and four products.
Flops attention(const Op& op, const Tape& /*tape*/) {
  const Read* query = find_read(op, 0);
  const Read* key = find_read(op, 1);
  const Read* value = find_read(op, 2);
  if (!query || !key || !value) return {};
  const auto queries = query->geometry->sizes();
  const double pairs = numel(queries.slice(0, queries.size() - 1)) *
                       key->geometry->sizes()[key->geometry->sizes().size() - 2];
  const double scores = 2 * pairs * queries.back();
  const double sum = 2 * pairs * value->geometry->sizes().back();
  const bool needs_grad = query->requires_grad || key->requires_grad || value->requires_grad;
  return {scores + sum, needs_grad ? 3 * scores + 2 * sum : 0};
}

// input [T, N, I] meets every weight matrix once per time step.
Flops rnn_layer(const Op& op, const Tape& /*tape*/) {
  const Read* input = find_read(op, 0);
  if (!input || input->geometry->sizes().size() != 3) return {};
  const double steps = numel(input->geometry->sizes().slice(0, 2));
  Flops flops;
  for (const Read& read : op.reads) {
    if (read.argument == 0 || read.geometry->sizes().size() != 2) continue;
    flops.forward += 2 * steps * numel(read.geometry->sizes());
    flops.backward += 4 * steps * numel(read.geometry->sizes()) * read.requires_grad;
  }
  return flops;
}

const std::unordered_map<std::string, Formula>& formulas() {
  static const std::unordered_map<std::string, Formula> table = {
      {"aten::convolution", convolution},
      {"aten::_convolution", convolution},
      {"aten::convolution_overrideable", convolution},
      {"aten::mm", matrix_product<0, 1>},
      {"aten::bmm", matrix_product<0, 1>},
      {"aten::addmm", matrix_product<1, 2>},
      {"aten::_addmm_activation", matrix_product<1, 2>},
      {"aten::baddbmm", matrix_product<1, 2>},
      {"aten::linear", linear},
      {"aten::mkldnn_linear", linear},
      {"aten::_scaled_dot_product_flash_attention", attention},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", attention},
      {"aten::_scaled_dot_product_efficient_attention", attention},
      {"aten::_scaled_dot_product_cudnn_attention", attention},
      {"aten::_scaled_dot_product_fused_attention_overrideable", attention},
      {"aten::mkldnn_rnn_layer", rnn_layer},
      {"aten::_cudnn_rnn", rnn_layer},
      {"aten::miopen_rnn", rnn_layer},
  };
  return table;
}

}  // namespace

Flops flops_of(const Op& op, const Tape& tape) {
  const auto formula = formulas().find(op.name());
  return formula == formulas().end() ? Flops{} : formula->second(op, tape);
}

double bytes_moved_by(const Op& op, const Tape& tape) {
  double bytes = 0;
  for (const Read& read : op.reads) {
    bytes += numel(read.geometry->sizes()) * c10::elementSize(read.geometry->scalar_type());
  }
  for (const tape::Result& result : op.results) {
    bytes += static_cast<double>(tape.values()[result.value].bytes);
  }
  return bytes;
}

}  // namespace gradrecomp::profile
