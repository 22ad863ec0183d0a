#pragma once

#include <string>

namespace gradrecomp::program {

/// A file that the user names by an option; "" is none.
struct NamedFile {
  std::string option;
  std::string path = {};
};

}  // namespace gradrecomp::program
