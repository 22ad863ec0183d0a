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

/// Whether `message` is of an error by which GradRecomp refuses what it cannot make exact: one that
/// says what the program did and how to go on, and not one of a fault of the library's own.
inline bool is_stated_error(const std::string& message) {
  const auto says = [&](const char* part) { return message.find(part) != std::string::npos; };
  if (says("please report")) return false;
  return says("has been modified by an inplace operation") ||
         says("was overwritten after the forward pass without its version counter growing") ||
         says(
             "were overwritten by another thread or without the dispatcher's knowledge, or their "
             "memory may have been freed") ||
         says("bytes in the forward pass and has") ||
         says("but the library of that operator was unloaded") ||
         says("Its operator allocates as it likes");
}

}  // namespace gradrecomp::test
