#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace gradrecomp::test {

/// Collects the warnings of its scope instead of printing them.
class WarningLog : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { messages.push_back(warning.msg()); }

  [[nodiscard]] std::string text() const {
    std::string all;
    for (const auto& message : messages) all += message + "\n";
    return all;
  }

  std::vector<std::string> messages;

 private:
  c10::WarningUtils::WarningHandlerGuard guard_{this};
};

/// What() of the exception that `body` throws.
inline std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace gradrecomp::test
