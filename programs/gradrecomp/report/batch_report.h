#pragma once

#include <string>

#include "measure/batch_study.h"

namespace gradrecomp::program {

/// What is predicted for every question, and what real steps did.
std::string batch_table(const BatchStudy& study);

/// The same as JSON.
std::string batch_json(const BatchStudy& study);

}  // namespace gradrecomp::program
