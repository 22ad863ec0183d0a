#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/program/program.h"
#include "gradrecomp/options.h"

namespace gradrecomp::fuzzing {

/// One way in which a wrapped run was not like the plain one.
struct Finding {
  std::string check;  ///< how the program was wrapped
  std::string what;   ///< what differed
  /// The step was right, but its predicted peak was not, or it followed no plan.
  bool about_peak = false;
};

struct CheckResult {
  std::vector<Finding> findings;  ///< empty if the program came out the same in all ways
  /// The program gives something else whenever memory that was never written holds something else,
  /// plain as well. So there is nothing that it should give, and no finding.
  bool reads_unwritten = false;
  bool plain_differs = false;  ///< from itself, when it runs again
};

struct CheckOptions {
  Verify verify = Verify::first_step;  ///< of the regions
};

/// Runs `program` plain and under GradRecomp in many ways, and compares bit for bit.
///
/// Compared are outputs, gradients, buffers, generators, errors, the bytes alive afterwards, and
/// the predicted with the measured peak. Leaves LibTorch at one CPU thread.
CheckResult check(const Program& program, const CheckOptions& options = {});

/// Takes steps out of a failing program for as long as it fails in the same check.
Program shrink(Program program, const std::string& failing_check, const CheckOptions& options = {});

}  // namespace gradrecomp::fuzzing
