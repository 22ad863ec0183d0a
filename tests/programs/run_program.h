#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace gradrecomp::program {

struct Outcome {
  int status = -1;
  std::string text;  ///< what came to its standard output; by default both streams
};

/// Runs the program in a shell, after what `before` says, such as `yes |`.
inline Outcome run_program(const std::string& arguments, const std::string& streams = "2>&1",
                           const std::string& before = "") {
  const std::string command =
      before + " " + std::string(GRADRECOMP_PROGRAM) + " " + arguments + " " + streams;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  Outcome outcome;
  std::array<char, 4096> part{};
  while (const auto size = std::fread(part.data(), 1, part.size(), pipe)) {
    outcome.text.append(part.data(), size);
  }
  const int result = pclose(pipe);
  outcome.status = WIFEXITED(result) ? WEXITSTATUS(result) : -1;
  return outcome;
}

inline std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void expect_refused(const std::string& arguments, const std::string& message) {
  const Outcome outcome = run_program(arguments);
  EXPECT_EQ(outcome.status, 2) << arguments;
  EXPECT_NE(outcome.text.find(message), std::string::npos) << arguments << ": " << outcome.text;
  EXPECT_EQ(outcome.text.find("frame #"), std::string::npos) << "a stack trace helps no user";
}

inline constexpr const char* kSmall =
    "--model resnet18 --image-size 32 --batch 2 --threads 1 --data " GRADRECOMP_DIGITS;

}  // namespace gradrecomp::program
