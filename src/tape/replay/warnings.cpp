#include "tape/replay/warnings.h"

#include <c10/util/Exception.h>

#include <mutex>
#include <unordered_set>

namespace gradrecomp::tape {

bool first_mention(const std::string& names) {
  static std::mutex mutex;
  static std::unordered_set<std::string> mentioned;
  const std::lock_guard lock(mutex);
  return mentioned.insert(names).second;
}

std::string text_of(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  return of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
}

}  // namespace gradrecomp::tape
