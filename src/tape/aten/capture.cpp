#include "tape/aten/capture.h"

#include <atomic>

#include "gradrecomp/device/capture.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {
namespace {
constinit std::atomic<bool (*)()> query{nullptr};
}  // namespace

void device::register_capture_query(bool (*is_capturing)()) { query = is_capturing; }

bool tape::is_capturing() {
  const auto ask = query.load();
  return ask != nullptr && ask();
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
