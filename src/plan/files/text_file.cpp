#include "text_file.h"

#include <fstream>
#include <string>
#include <system_error>

#include "plan/error.h"

namespace gradrecomp::plan {

namespace fs = std::filesystem;

std::string read_file(std::string_view function, const fs::path& path, std::int64_t most_bytes) {
  constexpr std::size_t kPartBytes = std::size_t{1} << 20;
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  const auto status = fs::status(path, error);
  if (fs::is_directory(status)) {
    raise({function, "file", path.string(), "no folder", "Pass a file"});
  }
  if (!file) {
    raise({function, "file", path.string(), "readable",
           fs::exists(status) ? "Pass a file that you may read" : "Pass a file that exists"});
  }
  std::string text;
  std::string part(kPartBytes, '\0');
  while (file.read(part.data(), static_cast<std::streamsize>(kPartBytes)) || file.gcount() > 0) {
    text.append(part, 0, static_cast<std::size_t>(file.gcount()));
    if (static_cast<std::int64_t>(text.size()) > most_bytes) {
      raise({function, "file", path.string(),
             "one that ends within " + std::to_string(most_bytes >> 20) + " MiB",
             "Pass a shorter one"});
    }
  }
  if (file.bad()) raise({function, "file", path.string(), "readable to its end", "Get it again"});
  return text;
}

}  // namespace gradrecomp::plan
