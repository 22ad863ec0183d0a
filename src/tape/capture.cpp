#include "gradrecomp/tape/capture.h"

#include <atomic>

namespace gradrecomp::tape {
namespace {
constinit std::atomic<bool (*)()> query{nullptr};
}  // namespace

void register_capture_query(bool (*is_capturing)()) { query = is_capturing; }

bool is_capturing() {
  const auto ask = query.load();
  return ask != nullptr && ask();
}

}  // namespace gradrecomp::tape
