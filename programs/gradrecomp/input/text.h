#pragma once

#include <torch/types.h>

#include <filesystem>

namespace gradrecomp::program {

/// The bytes of any file as uint8, [N]; the words a text model is trained on here.
/// Throws:  std::invalid_argument or BadInput if the file cannot be read, is empty or does not end.
torch::Tensor read_text(const std::filesystem::path& path);

}  // namespace gradrecomp::program
