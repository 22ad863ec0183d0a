#include "tape/dispatch/numeric_mode.h"

#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarTypeToTypeMeta.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include <cfenv>
#include <system_error>
#include <thread>
#include <utility>

namespace gradrecomp::tape {
namespace {

using at::CuBLASReductionOption;
using at::Float32Backend;
using at::Float32MatmulPrecision;
using at::Float32Op;
using at::Float32Precision;

using Precisions = std::array<std::uint8_t, NumericMode::kNumPrecisions>;

constexpr std::array<std::pair<Float32Backend, Float32Op>, NumericMode::kNumPrecisions> kKeys = {{
    {Float32Backend::CUDA, Float32Op::CONV},
    {Float32Backend::CUDA, Float32Op::RNN},
    {Float32Backend::CUDA, Float32Op::MATMUL},
    {Float32Backend::MKLDNN, Float32Op::CONV},
    {Float32Backend::MKLDNN, Float32Op::RNN},
    {Float32Backend::MKLDNN, Float32Op::MATMUL},
}};
constexpr std::size_t kCudnnConv = 0;
constexpr std::size_t kCudnnRnn = 1;
constexpr std::size_t kCublas = 2;
constexpr std::size_t kOneDnnMatmul = 5;

#ifdef __SSE2__
constexpr std::uint32_t kRounding = 0x6000;
// With it, to zero what would be denormal, and what is.
constexpr std::uint32_t kFloatControl = kRounding | 0x8000 | 0x0040;
#endif

// This thread's, in which LibTorch itself sets denormals to zero, and tells nobody.
std::uint32_t float_control() {
#ifdef __SSE2__
  return _mm_getcsr() & kFloatControl;
#else
  return static_cast<std::uint32_t>(std::fegetround());
#endif
}

void set_float_control(std::uint32_t control) {
#ifdef __SSE2__
  // The C library also rounds by the older unit, which nothing of LibTorch computes with.
  std::fesetround(static_cast<int>((control & kRounding) >> 3));
  _mm_setcsr((_mm_getcsr() & ~kFloatControl) | control);
#else
  std::fesetround(static_cast<int>(control));
#endif
}

std::uint8_t precision_of(std::size_t key) {
  const auto [backend, op] = kKeys[key];
  return static_cast<std::uint8_t>(at::globalContext().float32Precision(backend, op));
}

void set_precision(std::size_t key, std::uint8_t precision) {
  const auto [backend, op] = kKeys[key];
  at::globalContext().setFloat32Precision(backend, op, static_cast<Float32Precision>(precision));
}

/// The precision stored for a key. LibTorch only reports the effective one, so we change the
/// backend's and see whether the key follows; if so, it stores none.
std::uint8_t stored_precision(std::size_t key) {
  auto& context = at::globalContext();
  const auto current = static_cast<Float32Precision>(precision_of(key));
  const Float32Backend backend = kKeys[key].first;
  const auto generic = context.float32Precision(Float32Backend::GENERIC, Float32Op::ALL);
  const auto of_backend = context.float32Precision(backend, Float32Op::ALL);
  if (current != of_backend) return static_cast<std::uint8_t>(current);
  const auto other =
      current == Float32Precision::IEEE ? Float32Precision::TF32 : Float32Precision::IEEE;
  context.setFloat32Precision(Float32Backend::GENERIC, Float32Op::ALL, other);
  const bool backend_inherits = context.float32Precision(backend, Float32Op::ALL) == other;
  context.setFloat32Precision(Float32Backend::GENERIC, Float32Op::ALL, generic);
  context.setFloat32Precision(backend, Float32Op::ALL, other);
  const bool inherits = static_cast<Float32Precision>(precision_of(key)) == other;
  context.setFloat32Precision(backend, Float32Op::ALL,
                              backend_inherits ? Float32Precision::NONE : of_backend);
  return static_cast<std::uint8_t>(inherits ? Float32Precision::NONE : current);
}

constexpr bool is(std::uint8_t stored, Float32Precision precision) {
  return static_cast<Float32Precision>(stored) == precision;
}

// LibTorch reports the older setting only while it agrees with the newer interface. Where it may
// not agree, this is the value that would.
Float32MatmulPrecision matmul_precision(const Precisions& newer) {
  if (is(newer[kOneDnnMatmul], Float32Precision::BF16)) return Float32MatmulPrecision::MEDIUM;
  const bool is_reduced = is(newer[kOneDnnMatmul], Float32Precision::TF32) ||
                          is(newer[kCublas], Float32Precision::TF32);
  return is_reduced ? Float32MatmulPrecision::HIGH : at::globalContext().float32MatmulPrecision();
}

/// Whether LibTorch reports cuDNN's precision by its older interface, which it does where that
/// agrees with the newer one.
bool tells_of_cudnn() {
  try {
    static_cast<void>(at::globalContext().allowTF32CuDNN());
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

// Found out by giving the newer interface what agrees with anything, or with one of two.
OlderPrecisions older_precisions() {
  constexpr auto kIeee = static_cast<std::uint8_t>(Float32Precision::IEEE);
  for (const std::size_t key : {kCublas, kOneDnnMatmul, kCudnnConv, kCudnnRnn}) {
    set_precision(key, kIeee);
  }
  return {.matmul = at::globalContext().float32MatmulPrecision(), .cudnn_tf32 = !tells_of_cudnn()};
}

const char* name_of(Float32MatmulPrecision precision) {
  switch (precision) {
    case Float32MatmulPrecision::MEDIUM:
      return "medium";
    case Float32MatmulPrecision::HIGH:
      return "high";
    default:
      return "highest";
  }
}

// The older ones first, as LibTorch sets the newer ones with them.
void set_precisions(const OlderPrecisions& older, const Precisions& newer) {
  at::globalContext().setFloat32MatmulPrecision(name_of(older.matmul));
  at::globalContext().setAllowTF32CuDNN(older.cudnn_tf32);
  for (std::size_t i = 0; i < newer.size(); ++i) set_precision(i, newer[i]);
}

/// Sets each for itself, whatever it was inherited from.
void set_precisions_of(const NumericMode& mode) {
  const bool cudnn_tf32 = is(mode.precisions[kCudnnConv], Float32Precision::TF32) &&
                          is(mode.precisions[kCudnnRnn], Float32Precision::TF32);
  set_precisions({mode.matmul_precision, cudnn_tf32}, mode.precisions);
}

bool has_other_precisions(const NumericMode& one, const NumericMode& other) {
  return one.precisions != other.precisions || one.matmul_precision != other.matmul_precision;
}

struct Reduction {
  bool reduced;
  bool splits_k;
};

Reduction reduction(std::uint8_t option) {
  const auto of = static_cast<CuBLASReductionOption>(option);
  return {of == CuBLASReductionOption::AllowReducedPrecisionWithSplitK,
          of != CuBLASReductionOption::DisallowReducedPrecisionDisallowSplitK};
}

// LibTorch sets the number of threads for those that start later, too. What that was only a new
// one can say.
void set_num_threads_of_this_thread(int num_threads) {
  int of_new_threads = 0;
  try {
    std::thread([&] { of_new_threads = at::get_num_threads(); }).join();
    at::set_num_threads(num_threads);
    std::thread([&] { at::set_num_threads(of_new_threads); }).join();
  } catch (const std::system_error&) {
    at::set_num_threads(num_threads);  // the system has no thread left that could tell
  }
}

int num_threads_now() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

void change(const NumericMode& from, const NumericMode& to) {
  auto& context = at::globalContext();
  if (from.cudnn != to.cudnn) context.setUserEnabledCuDNN(to.cudnn);
  if (from.cudnn_benchmark != to.cudnn_benchmark) context.setBenchmarkCuDNN(to.cudnn_benchmark);
  if (from.cudnn_benchmark_limit != to.cudnn_benchmark_limit) {
    context.setBenchmarkLimitCuDNN(to.cudnn_benchmark_limit);
  }
  if (from.cudnn_deterministic != to.cudnn_deterministic) {
    context.setDeterministicCuDNN(to.cudnn_deterministic);
  }
  if (from.mkldnn != to.mkldnn) context.setUserEnabledMkldnn(to.mkldnn);
  if (from.mkldnn_deterministic != to.mkldnn_deterministic) {
    context.setDeterministicMkldnn(to.mkldnn_deterministic);
  }
  if (from.nnpack != to.nnpack) context.setUserEnabledNNPACK(to.nnpack);
  if (from.deterministic != to.deterministic ||
      from.deterministic_warns_only != to.deterministic_warns_only) {
    context.setDeterministicAlgorithms(to.deterministic, to.deterministic_warns_only);
  }
  if (from.fills_uninitialized != to.fills_uninitialized) {
    context.setDeterministicFillUninitializedMemory(to.fills_uninitialized);
  }
  if (from.fp16_reduction_cpu != to.fp16_reduction_cpu) {
    context.setAllowFP16ReductionCPU(to.fp16_reduction_cpu);
  }
  if (from.fp16_accumulation != to.fp16_accumulation) {
    context.setAllowFP16AccumulationCuBLAS(to.fp16_accumulation);
  }
  if (from.fp16_reduction != to.fp16_reduction) {
    const auto [reduced, splits_k] = reduction(to.fp16_reduction);
    context.setAllowFP16ReductionCuBLAS(reduced, splits_k);
  }
  if (from.bf16_reduction != to.bf16_reduction) {
    const auto [reduced, splits_k] = reduction(to.bf16_reduction);
    context.setAllowBF16ReductionCuBLAS(reduced, splits_k);
  }
  if (from.float_control != to.float_control) set_float_control(to.float_control);
  // Where several threads work already, kernels use one each, whatever is set.
  if (from.num_threads != to.num_threads && !at::in_parallel_region()) {
    set_num_threads_of_this_thread(to.num_threads);
  }
  if (from.default_dtype != to.default_dtype) {
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(to.default_dtype));
  }
  tape::change(from.attention, to.attention);
}

}  // namespace

NumericMode NumericMode::current() {
  const auto& context = at::globalContext();
  NumericMode mode{
      .cudnn = context.userEnabledCuDNN(),
      .cudnn_benchmark = context.benchmarkCuDNN(),
      .cudnn_deterministic = context.deterministicCuDNN(),
      .mkldnn = context.userEnabledMkldnn(),
      .mkldnn_deterministic = context.deterministicMkldnn(),
      .nnpack = context.userEnabledNNPACK(),
      .deterministic = context.deterministicAlgorithms(),
      .deterministic_warns_only = context.deterministicAlgorithmsWarnOnly(),
      .fills_uninitialized = context.deterministicFillUninitializedMemory(),
      .fp16_reduction_cpu = context.allowFP16ReductionCPU(),
      .fp16_accumulation = context.allowFP16AccumulationCuBLAS(),
      .float_control = tape::float_control(),
      .fp16_reduction = static_cast<std::uint8_t>(context.allowFP16ReductionCuBLAS()),
      .bf16_reduction = static_cast<std::uint8_t>(context.allowBF16ReductionCuBLAS()),
      .default_dtype = c10::get_default_dtype_as_scalartype(),
      .cudnn_benchmark_limit = context.benchmarkLimitCuDNN(),
      .num_threads = num_threads_now(),
      .attention = AttentionMode::current(),
  };
  for (std::size_t i = 0; i < kKeys.size(); ++i) mode.precisions[i] = precision_of(i);
  mode.matmul_precision = tape::matmul_precision(mode.precisions);
  return mode;
}

bool NumericMode::lasts_for_one_kernel() const {
  const auto& context = at::globalContext();
  return float_control == tape::float_control() && num_threads == num_threads_now() &&
         default_dtype == c10::get_default_dtype_as_scalartype() &&
         deterministic == context.deterministicAlgorithms() &&
         deterministic_warns_only == context.deterministicAlgorithmsWarnOnly() &&
         fills_uninitialized == context.deterministicFillUninitializedMemory();
}

NumericScope::NumericScope(const NumericMode& mode, const NumericMode& current)
    : mode_(mode), before_(current) {
  if (mode_ == before_) return;
  change(before_, mode_);
  if (!has_other_precisions(mode_, before_)) return;
  for (std::size_t i = 0; i < kKeys.size(); ++i) stored_[i] = stored_precision(i);
  older_ = older_precisions();
  set_precisions_of(mode_);
}

NumericScope::~NumericScope() {
  if (mode_ == before_) return;
  change(mode_, before_);
  if (has_other_precisions(mode_, before_)) set_precisions(older_, stored_);
}

SettingsRestore::~SettingsRestore() {
  const NumericMode now = NumericMode::current();
  if (now == before_) return;
  change(now, before_);
  if (has_other_precisions(now, before_)) set_precisions_of(before_);
}

}  // namespace gradrecomp::tape
