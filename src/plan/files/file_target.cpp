#include "file_target.h"

#include <charconv>
#include <string>
#include <system_error>

namespace gradrecomp::plan {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as many as Linux follows

/// The same place with all links followed but one at its very end.
fs::path in_real_folder(const fs::path& path) {
  std::error_code error;
  const auto folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const auto real_folder = fs::canonical(folder, error);
  return error ? path : real_folder / path.filename();
}

/// The descriptor that an entry of /proc/self/fd stands for, or -1.
int descriptor_at(const fs::path& path) {
  std::error_code error;
  const auto own = fs::canonical("/proc/self/fd", error);
  if (error || path.parent_path() != own) return -1;
  const std::string name = path.filename();
  int descriptor = -1;
  const auto [stop, fault] = std::from_chars(name.data(), name.data() + name.size(), descriptor);
  return fault == std::errc{} && stop == name.data() + name.size() ? descriptor : -1;
}

}  // namespace

FileTarget file_target(const fs::path& path) {
  FileTarget target{in_real_folder(path)};
  std::error_code error;
  for (int i = 0; i < kMostLinks; ++i) {
    // Before its link is followed: a descriptor may be that of a file, and has its own place there.
    target.descriptor = descriptor_at(target.path);
    if (target.descriptor >= 0 || !fs::is_symlink(target.path, error)) break;
    target.path = in_real_folder(target.path.parent_path() / fs::read_symlink(target.path, error));
  }
  const auto status = fs::status(target.path, error);
  target.in_place = target.descriptor >= 0 || (fs::exists(status) && !fs::is_regular_file(status));
  return target;
}

}  // namespace gradrecomp::plan
