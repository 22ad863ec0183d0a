#include "input/text.h"

#include <torch/torch.h>

#include <cstdint>

#include "bad_input.h"
#include "plan/files/text_file.h"

namespace gradrecomp::program {

torch::Tensor read_text(const std::filesystem::path& path) {
  constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;
  auto bytes = plan::read_file("--data", path, kMostBytes);
  if (bytes.empty())
    reject("--data", "file", path.string(), "at least one byte. Pass another file.");
  return torch::from_blob(bytes.data(), {static_cast<std::int64_t>(bytes.size())}, torch::kByte)
      .clone();
}

}  // namespace gradrecomp::program
