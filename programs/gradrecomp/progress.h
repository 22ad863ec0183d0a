#pragma once

#include <string_view>

namespace gradrecomp::program {

/// One line on a terminal's standard error that says what runs now; silent in a pipe or a file.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::string_view line);
  void clear();

 private:
  bool on_terminal_;
};

}  // namespace gradrecomp::program
