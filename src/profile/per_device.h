#pragma once

#include <c10/core/Device.h>

#include <map>
#include <mutex>
#include <utility>

#include "gradrecomp/version.h"

namespace gradrecomp::profile {

/// What is measured once in a process for each device.
///
/// Threads: safe to use from any; others wait while one measures.
template <class Figure>
class PerDevice {
 public:
  template <class Measure>
  Figure of(c10::Device device, const Measure& measure) {
    const std::lock_guard lock(mutex_);
    const auto key = std::pair(device.type(), device.index());
    const auto known = figures_.find(key);
    return known != figures_.end() ? known->second
                                   : figures_.emplace(key, measure(device)).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<c10::DeviceType, c10::DeviceIndex>, Figure> figures_;
};

}  // namespace gradrecomp::profile
