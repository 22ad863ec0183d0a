#pragma once

#include <ATen/Context.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>

#include "gradrecomp/version.h"
#include "tape/dispatch/attention_mode.h"

namespace gradrecomp::tape {

/// What LibTorch lets a program choose for the process or a thread that changes the bits of what
/// kernels compute: libraries and kernels of attention switched on or off, deterministic
/// algorithms, precisions of float32 and of reductions, the number of threads, how the processor
/// rounds and, on x86, what it makes of denormal numbers; and the default dtype, which ops on
/// integers and numbers follow when they are called.
///
/// Not in it: which library for linear algebra or BLAS is preferred on CUDA.
struct NumericMode {
  static constexpr std::size_t kNumPrecisions = 6;

  bool cudnn = true;
  bool cudnn_benchmark = false;
  bool cudnn_deterministic = false;
  bool mkldnn = true;
  bool mkldnn_deterministic = false;
  bool nnpack = true;
  bool deterministic = false;
  bool deterministic_warns_only = false;
  bool fills_uninitialized = true;
  bool fp16_reduction_cpu = false;
  bool fp16_accumulation = false;
  std::uint32_t float_control = 0;  ///< the processor's, 0 as usual: rounding, denormals to zero
  std::uint8_t fp16_reduction = 0;  ///< at::CuBLASReductionOption
  std::uint8_t bf16_reduction = 0;  ///< at::CuBLASReductionOption
  std::array<std::uint8_t, kNumPrecisions> precisions = {};  ///< at::Float32Precision
  at::Float32MatmulPrecision matmul_precision = {};          ///< by LibTorch's older interface
  c10::ScalarType default_dtype = c10::ScalarType::Float;
  std::int32_t cudnn_benchmark_limit = 0;
  std::int32_t num_threads = 0;
  AttentionMode attention;

  bool operator==(const NumericMode&) const = default;

  /// Whether the processor rounds to nearest and takes denormals as they are.
  [[nodiscard]] bool has_usual_floats() const { return float_control == 0; }

  /// Whether what kernels follow where no library and no precision is chosen is still so: threads,
  /// how the processor computes, deterministic algorithms, the default dtype. In the order of
  /// 0.01 us.
  [[nodiscard]] bool lasts_for_one_kernel() const;
  /// That of the process and this thread, in the order of 0.1 us.
  static NumericMode current();
};

/// What LibTorch keeps of its older interface to precisions beside those of NumericMode. Reading
/// them raises an error while the two differ.
struct OlderPrecisions {
  at::Float32MatmulPrecision matmul = {};
  bool cudnn_tf32 = true;
};

/// Has this thread compute in `mode` until the scope ends. Other threads compute so meanwhile, too,
/// as far as LibTorch keeps a choice for the whole process; nothing is touched that is as it was.
class NumericScope {
 public:
  /// `current`: NumericMode::current(), which need not be asked for before each of many ops.
  NumericScope(const NumericMode& mode, const NumericMode& current);
  ~NumericScope();
  NumericScope(const NumericScope&) = delete;
  NumericScope& operator=(const NumericScope&) = delete;

 private:
  NumericMode mode_;
  NumericMode before_;
  /// The precisions as stored; none where one is inherited.
  std::array<std::uint8_t, NumericMode::kNumPrecisions> stored_ = {};
  OlderPrecisions older_;
};

/// Puts this thread's mode back, when the scope ends, to what it was when the scope began, whoever
/// changed it. A precision that was inherited and has been changed is set for itself then.
class SettingsRestore {
 public:
  SettingsRestore() = default;
  ~SettingsRestore();
  SettingsRestore(const SettingsRestore&) = delete;
  SettingsRestore& operator=(const SettingsRestore&) = delete;

 private:
  NumericMode before_ = NumericMode::current();
};

}  // namespace gradrecomp::tape
