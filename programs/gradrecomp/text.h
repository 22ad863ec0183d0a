#pragma once

#include <torch/types.h>

#include <filesystem>

namespace gradrecomp::program {

/// The bytes of any file as int64, [N]; the words a text model is trained on here.
/// Throws:  BadInput if the file cannot be read or is empty.
torch::Tensor read_text(const std::filesystem::path& path);

}  // namespace gradrecomp::program
