#pragma once

#include <string>
#include <vector>

#include "gradrecomp/options.h"

namespace gradrecomp::program {

/// One way to run the step.
struct Arm {
  std::string name;  ///< as plan::Policy spells it, a share such as "18%", or "plain"
  Options options;   ///< of its region; "plain" has none
};

/// Reads an arm: "plain", a fixed policy ("every_2"), or an overhead ("18%").
/// Throws:  BadInput listing these, for any other text.
Arm parse_arm(const std::string& text);

/// The arm that runs under the user's budget, policy or plan.
Arm main_arm(const Options& options);

/// Every arm of `arms` once and `last` at the end, without plain, which always runs.
std::vector<Arm> arms_to_run(const std::vector<Arm>& arms, const Arm& last);

}  // namespace gradrecomp::program
