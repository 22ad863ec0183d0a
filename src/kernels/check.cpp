#include "gradrecomp/kernels/check.h"

#include <c10/util/Exception.h>

namespace gradrecomp::kernels {
namespace {

void check_count(const char* function, const char* name, std::int64_t count) {
  TORCH_CHECK_VALUE(count >= 0, function, ": ", name, " is ", count,
                    ", but must be at least 0. Pass the tensor's size.");
}

void check_positive(const char* function, const char* name, std::int64_t value) {
  TORCH_CHECK_VALUE(value > 0, function, ": ", name, " is ", value,
                    ", but must be at least 1. Pass what the pooling was called with.");
}

void check_element_bytes(const char* function, std::int64_t bytes) {
  const bool fits = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  TORCH_CHECK_VALUE(fits, function, ": element_bytes is ", bytes,
                    ", but must be 1, 2, 4 or 8. Pass the size of the mask's type.");
}

void check_pointer(const char* function, const char* name, const void* pointer) {
  TORCH_CHECK_VALUE(pointer != nullptr, function, ": ", name,
                    " is null, but must be memory. Pass the tensor's data.");
}

void check_dtype(const char* function, const char* name, Dtype dtype, Dtype tensor) {
  TORCH_CHECK_VALUE(dtype == Dtype::float32 || dtype == tensor, function, ": ", name, " is ",
                    static_cast<int>(dtype), ", but must be float32 or dtype, which is ",
                    static_cast<int>(tensor), ". Convert the coefficients.");
}

void check_rounding(const char* function, Rounding rounding) {
  TORCH_CHECK_VALUE(static_cast<std::size_t>(rounding) < kRoundings.size(), function,
                    ": rounding is ", static_cast<int>(rounding), ", but must be at most ",
                    kRoundings.size() - 1, ". Pass one of kRoundings.");
}

void check_pooling(const char* function, const Pooling& p) {
  check_count(function, "num_images", p.num_images);
  check_count(function, "num_channels", p.num_channels);
  check_count(function, "output_height", p.output_height);
  check_count(function, "output_width", p.output_width);
  check_positive(function, "input_width", p.input_width);
  check_positive(function, "kernel_height", p.kernel_height);
  check_positive(function, "kernel_width", p.kernel_width);
  check_positive(function, "dilation_height", p.dilation_height);
  check_positive(function, "dilation_width", p.dilation_width);
  TORCH_CHECK_VALUE(offsets_fit(p), function, ": kernel_height * kernel_width is ",
                    p.kernel_height * p.kernel_width,
                    ", but must be at most 256. Ask offsets_fit() first.");
}

void check_operand(const Step& step) {
  const bool needed =
      step.kind == StepKind::add || step.kind == StepKind::mul || step.kind == StepKind::mask;
  if (needed) check_pointer("apply_chain", "operand of a step", step.operand);
}

}  // namespace

void check(const BatchNorm& args) {
  const char* function = "batch_norm_apply";
  check_count(function, "num_images", args.num_images);
  check_count(function, "num_channels", args.num_channels);
  check_count(function, "inner", args.inner);
  check_dtype(function, "parameter_dtype", args.parameter_dtype, args.dtype);
  check_dtype(function, "statistics_dtype", args.statistics_dtype, args.dtype);
  check_rounding(function, args.rounding);
  if (args.num_images * args.num_channels * args.inner == 0) return;
  check_pointer(function, "x", args.x);
  check_pointer(function, "mean", args.mean);
  check_pointer(function, "invstd", args.invstd);
  check_pointer(function, "y", args.y);
}

void check(const LayerNorm& args) {
  const char* function = "layer_norm_apply";
  check_count(function, "num_rows", args.num_rows);
  check_count(function, "num_columns", args.num_columns);
  check_dtype(function, "parameter_dtype", args.parameter_dtype, args.dtype);
  check_dtype(function, "statistics_dtype", args.statistics_dtype, args.dtype);
  check_rounding(function, args.rounding);
  if (args.num_rows * args.num_columns == 0) return;
  check_pointer(function, "x", args.x);
  check_pointer(function, "mean", args.mean);
  check_pointer(function, "rstd", args.rstd);
  check_pointer(function, "y", args.y);
}

void check(const PointwiseChain& chain) {
  check_count("apply_chain", "num_elements", chain.num_elements);
  TORCH_CHECK_VALUE(chain.steps.size() <= kMaxSteps, "apply_chain: the number of steps is ",
                    chain.steps.size(), ", but must be at most ", kMaxSteps,
                    ". Apply the rest in a second chain.");
  if (chain.num_elements == 0) return;
  check_pointer("apply_chain", "x", chain.x);
  check_pointer("apply_chain", "y", chain.y);
  for (const Step& step : chain.steps) check_operand(step);
}

void check(const PackMask& args) {
  check_count("pack_mask", "num_elements", args.num_elements);
  check_element_bytes("pack_mask", args.element_bytes);
  if (args.num_elements == 0) return;
  check_pointer("pack_mask", "mask", args.mask);
  check_pointer("pack_mask", "bits", args.bits);
}

void check(const UnpackMask& args) {
  check_count("unpack_mask", "num_elements", args.num_elements);
  check_element_bytes("unpack_mask", args.element_bytes);
  if (args.num_elements == 0) return;
  check_pointer("unpack_mask", "bits", args.bits);
  check_pointer("unpack_mask", "mask", args.mask);
}

void check(const PackIndices& args) {
  check_pooling("pack_indices", args.pooling);
  if (args.pooling.num_outputs() == 0) return;
  check_pointer("pack_indices", "indices", args.indices);
  check_pointer("pack_indices", "offsets", args.offsets);
}

void check(const UnpackIndices& args) {
  check_pooling("unpack_indices", args.pooling);
  if (args.pooling.num_outputs() == 0) return;
  check_pointer("unpack_indices", "offsets", args.offsets);
  check_pointer("unpack_indices", "indices", args.indices);
}

void check(const RoundFloats& args) {
  check_count("round_floats", "num_elements", args.num_elements);
  if (args.num_elements == 0) return;
  check_pointer("round_floats", "numbers", args.numbers);
  check_pointer("round_floats", "rounded", args.rounded);
}

void check(const WidenFloats& args) {
  check_count("widen_floats", "num_elements", args.num_elements);
  if (args.num_elements == 0) return;
  check_pointer("widen_floats", "rounded", args.rounded);
  check_pointer("widen_floats", "numbers", args.numbers);
}

void check(const HashMemory& args) {
  for (const HashedMemory& memory : args.parts) {
    check_count("hash_memory", "num_bytes", memory.num_bytes);
    if (memory.num_bytes == 0) continue;
    check_pointer("hash_memory", "bytes", memory.bytes);
    check_pointer("hash_memory", "hashes", memory.hashes);
  }
}

}  // namespace gradrecomp::kernels
