#pragma once

#include <string>

#include "measure/study.h"

namespace gradrecomp::program {

/// The table of the fixed policies, of points along the front and of the chosen plan.
std::string study_table(const Study& study);

/// The same as JSON, with every point of the front.
std::string study_json(const Study& study);

}  // namespace gradrecomp::program
