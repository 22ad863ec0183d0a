#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "gradrecomp/export.h"
#include "gradrecomp/plan/origin.h"
#include "gradrecomp/plan/plan.h"

namespace gradrecomp::plan {

/// A plan as a file holds it. How long planning took is not in it.
struct SavedPlan {
  Plan plan;
  Origin origin = {};
};

/// Writes a plan as JSON, to be followed by another run of the same op sequence.
///
///   save_plan({region.plan(), {.description = "resnet50, batch 8"}}, "plan.json");
///
/// Peaks of several devices are in `devices`; a plan for one device has no such member.
///
/// Guarantees: the same text for the same plan; load_plan() gives back every bit of it; a file that
///             is there already stays whole until the new one replaces it.
/// Throws:     std::invalid_argument if no file can be there, or load_plan() would refuse it;
///             std::runtime_error if the disk does not take it.
GRADRECOMP_API void save_plan(const SavedPlan& saved, const std::filesystem::path& path);

/// Reads what save_plan() wrote.
/// Throws:  std::invalid_argument naming the file and the field that is not as it must be.
GRADRECOMP_API SavedPlan load_plan(const std::filesystem::path& path);

/// The text that save_plan() writes. Bytes of strings that are not UTF-8 are replaced.
GRADRECOMP_API std::string plan_text(const SavedPlan& saved);

/// Reads that text.
/// Throws:  std::invalid_argument naming the field that is not as it must be.
GRADRECOMP_API SavedPlan parse_plan(std::string_view text);

}  // namespace gradrecomp::plan
