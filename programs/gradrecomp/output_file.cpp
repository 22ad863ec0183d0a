#include "output_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "bad_input.h"

namespace gradrecomp::program {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void reject_file(std::string_view option, const std::string& path) {
  reject(option, "file", path, "writable. Pass a file in a folder that exists.");
}

}  // namespace

void check_writable(std::string_view option, const std::string& path) {
  if (path.empty()) return;
  std::error_code error;
  auto folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  const bool exists = fs::exists(path, error);
  const bool writable = ::access((exists ? path : folder.string()).c_str(), W_OK) == 0;
  if (!writable || fs::is_directory(path, error) || !fs::is_directory(folder, error)) {
    reject_file(option, path);
  }
}

void write_output(std::string_view option, const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file.fail()) reject_file(option, path);
}

}  // namespace gradrecomp::program
