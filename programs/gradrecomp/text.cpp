#include "text.h"

#include <torch/torch.h>

#include <fstream>
#include <iterator>
#include <vector>

#include "bad_input.h"

namespace gradrecomp::program {

torch::Tensor read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path)) {
    reject("--data", "file", path.string(), "readable. Pass a text file, such as README.md.");
  }
  const std::vector<unsigned char> bytes(std::istreambuf_iterator<char>(file), {});
  if (bytes.empty())
    reject("--data", "file", path.string(), "at least one byte. Pass another file.");
  return torch::tensor(std::vector<std::int64_t>(bytes.begin(), bytes.end()));
}

}  // namespace gradrecomp::program
