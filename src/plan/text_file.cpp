#include "text_file.h"

#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <system_error>

#include "error.h"

namespace gradrecomp::plan {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_to_write(std::string_view function, const fs::path& path) {
  raise({function, "file", path.string(), "writable",
         "Pass a file in a folder that exists and has space"});
}

bool write(const fs::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return !file.fail();
}

/// A name beside `path` that no other writer has chosen.
fs::path beside(const fs::path& path) {
  std::random_device random;
  return path.string() + "." + std::to_string(random()) + ".part";
}

}  // namespace

std::string read_file(std::string_view function, const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  if (!file || fs::is_directory(path, error)) {
    raise({function, "file", path.string(), "readable", "Pass a file that exists"});
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

void replace_file(std::string_view function, const fs::path& path, std::string_view text) {
  std::error_code error;
  const bool in_place = fs::exists(path, error) && !fs::is_regular_file(path, error);
  if (in_place) {
    if (!write(path, text)) refuse_to_write(function, path);
    return;
  }
  // A link stays one: what it points to is replaced.
  const fs::path target = fs::is_symlink(path, error) ? fs::weakly_canonical(path, error) : path;
  const fs::path part = beside(target);
  bool done = write(part, text);
  if (done) {
    fs::rename(part, target, error);
    done = !error;
  }
  if (done) return;
  fs::remove(part, error);
  refuse_to_write(function, path);
}

}  // namespace gradrecomp::plan
