#pragma once

#include "gradrecomp/version.h"
#include "tape/substitute.h"

namespace gradrecomp::tape {

/// Applies a normalisation's kept statistics, and may add a residual and rectify in the same pass.
///
/// Reads, in this order: x, weight and bias where there are any, mean, inverse deviation.
class NormSubstitute : public Substitute {
 public:
  /// Positions of weight and bias among the call's arguments.
  NormSubstitute(std::int16_t weight, std::int16_t bias) : weight_(weight), bias_(bias) {}

  [[nodiscard]] int num_formulas() const override;
  [[nodiscard]] bool cancel(const Op& op, std::vector<at::Tensor>& tensors) const override;

  /// Whether this takes calls that made `result` from an input of the same strides.
  [[nodiscard]] virtual bool takes(const at::Tensor& result, const at::Tensor& mean) const = 0;

 protected:
  struct Operands {
    at::Tensor x, weight, bias, mean, inverse_deviation;
  };
  [[nodiscard]] Operands operands(const Op& op, const std::vector<at::Tensor>& tensors) const;
  /// In float32, normalised but without weight and bias: the first element that each of these is
  /// for.
  [[nodiscard]] virtual at::Tensor first_elements(const Operands& from) const = 0;

 private:
  std::int16_t weight_;
  std::int16_t bias_;
};

/// For results [N, C, ...] with statistics [C].
class BatchNormSubstitute final : public NormSubstitute {
 public:
  using NormSubstitute::NormSubstitute;
  [[nodiscard]] bool takes(const at::Tensor& result, const at::Tensor& mean) const override;
  [[nodiscard]] bool has_followers() const override { return true; }
  [[nodiscard]] bool takes_samples(const Op& /*op*/) const override { return true; }
  [[nodiscard]] at::Tensor run(const Op& op, const std::vector<at::Tensor>& tensors, int formula,
                               const Followers& followers) const override;

 protected:
  [[nodiscard]] at::Tensor first_elements(const Operands& from) const override;
};

/// For results of rows with statistics for each.
class LayerNormSubstitute final : public NormSubstitute {
 public:
  using NormSubstitute::NormSubstitute;
  [[nodiscard]] bool takes(const at::Tensor& result, const at::Tensor& mean) const override;
  /// Unless all of the input is one row.
  [[nodiscard]] bool takes_samples(const Op& op) const override;
  [[nodiscard]] at::Tensor run(const Op& op, const std::vector<at::Tensor>& tensors, int formula,
                               const Followers& followers) const override;

 protected:
  [[nodiscard]] at::Tensor first_elements(const Operands& from) const override;
};

}  // namespace gradrecomp::tape
