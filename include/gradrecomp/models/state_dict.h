#pragma once

#include <torch/nn/module.h>
#include <torch/ordered_dict.h>
#include <torch/types.h>

#include <filesystem>
#include <string>

#include "gradrecomp/export.h"

namespace gradrecomp::models {

/// Tensors by their dotted name, e.g. "layer1.0.bn1.running_mean".
using StateDict = torch::OrderedDict<std::string, torch::Tensor>;

/// All parameters, then all buffers. The tensors are the module's own, not copies.
GRADRECOMP_API StateDict state_dict(const torch::nn::Module& module);

/// Copies `state` into the parameters and buffers of `module`, to their device and type.
///
/// Guarantees: the module is unchanged where this throws.
/// Throws:     c10::ValueError listing the first names that are missing, not in the module, or of
///             another shape.
GRADRECOMP_API void load_state_dict(torch::nn::Module& module, const StateDict& state);

/// Loads the file that `read_state_dict` reads.
GRADRECOMP_API void load_state_dict(torch::nn::Module& module, const std::filesystem::path& path);

/// Reads what Python wrote with `torch.save(dict(model.state_dict()), path)`.
///
/// The call to `dict` matters: the state dict itself carries metadata that C++ cannot read.
/// Throws:     c10::ValueError if the file cannot be read or holds anything but named tensors.
GRADRECOMP_API StateDict read_state_dict(const std::filesystem::path& path);

}  // namespace gradrecomp::models
