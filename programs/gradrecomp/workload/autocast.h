#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>

namespace gradrecomp::program {

/// Mixed precision on a device for a scope, as torch.autocast does it. Does nothing without a type.
class Autocast {
 public:
  Autocast(c10::Device device, std::optional<c10::ScalarType> type);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  c10::Device device_;
  bool is_on_ = false;
  bool was_enabled_ = false;
  c10::ScalarType type_before_ = c10::ScalarType::Undefined;
};

}  // namespace gradrecomp::program
