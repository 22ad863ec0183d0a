#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gradrecomp::program {

/// What is trained, on what and where, as the user says it.
struct WorkloadOptions {
  std::string model = "resnet18";
  std::int64_t batch = 4;
  std::optional<std::int64_t> image_size = {};  ///< 224 where nothing is given
  std::optional<std::int64_t> sequence = {};    ///< 128 where nothing is given
  std::optional<std::int64_t> layers = {};      ///< fewer layers of a text model or ViT
  std::string device = "cpu";
  std::string dtype = "float32";
  std::string autocast = {};   ///< type of mixed precision; empty: none
  bool channels_last = false;  ///< images in NHWC
  std::string data = {};       ///< digits for images, any file for text; empty: random input
  std::uint64_t seed = 0;
  /// How a step finds its gradients. "preallocated": as zeros, which are not activations; "none":
  /// undefined, so that the step allocates them and its peak counts them.
  std::string gradients = "preallocated";
};

}  // namespace gradrecomp::program
