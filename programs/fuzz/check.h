#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gradrecomp/region/options.h"
#include "program.h"

namespace gradrecomp::fuzzing {

/// One way in which a wrapped run was not like the plain one.
struct Finding {
  std::string check;  ///< how the program was wrapped
  std::string what;   ///< what differed
  /// The step was right, but its predicted peak was not, or it followed no plan.
  bool about_peak = false;
};

struct CheckOptions {
  Verify verify = Verify::first_step;  ///< of the regions
};

/// Runs `program` plain and under GradRecomp in many ways, and compares bit for bit.
///
/// Compared are outputs, gradients, buffers, generators, errors, the bytes alive afterwards, and
/// the predicted with the measured peak. Empty if all are equal. Leaves LibTorch at one CPU thread.
std::vector<Finding> check(const Program& program, const CheckOptions& options = {});

/// Takes steps out of a failing program for as long as it fails in the same check.
Program shrink(Program program, const std::string& failing_check, const CheckOptions& options = {});

}  // namespace gradrecomp::fuzzing
