#pragma once

#include <ATen/Context.h>
#include <ATen/SDPBackend.h>

#include <array>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// Which kernels LibTorch's scaled_dot_product_attention may choose, and in which order. They
/// differ in bits.
struct AttentionMode {
  bool flash = true;
  bool flash3 = false;
  bool flash4 = false;
  bool efficient = true;
  bool math = true;
  bool cudnn = true;
  bool overrideable = true;
  bool reduces_in_16_bits = false;  ///< the one that is made of other operators
  std::array<at::SDPBackend, at::num_sdp_backends> order = {};

  bool operator==(const AttentionMode&) const = default;

  /// That of the process.
  static AttentionMode current();
};

/// Sets for the process what is different in `to`.
void change(const AttentionMode& from, const AttentionMode& to);

}  // namespace gradrecomp::tape
