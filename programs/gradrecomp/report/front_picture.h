#pragma once

#include <string>

#include "measure/study.h"

namespace gradrecomp::program {

/// The front of a study as an SVG picture: predicted peak, as a share of plain, against overhead.
///
/// Fixed policies are labelled marks; those that cost more than the picture shows lie on its right
/// edge. Peaks proven impossible are shaded.
std::string front_picture(const Study& study);

}  // namespace gradrecomp::program
