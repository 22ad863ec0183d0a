#pragma once

#include <string>

#include "gradrecomp/version.h"

namespace gradrecomp::plan {

/// What a saved graph or plan was made on, for people; its signature alone decides what it fits.
struct Origin {
  std::string description = {};  ///< "resnet152, batch 4, image 224 x 224, float32 on cpu"
  std::string dtype = {};        ///< "float32"
  std::string device = {};       ///< "cpu"
  bool operator==(const Origin&) const = default;
};

}  // namespace gradrecomp::plan
