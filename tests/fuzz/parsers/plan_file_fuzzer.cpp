#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "expect.h"
#include "gradrecomp/plan/plan_file.h"

using namespace gradrecomp;

/// What is read is written and read again without a change; all else is refused with a message.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto saved = plan::parse_plan(text);
    const auto again = plan::parse_plan(plan::plan_text(saved));
    fuzzing::expect(plan::plan_text(again) == plan::plan_text(saved), "a plan changed its text");
    fuzzing::expect(again.plan.keep == saved.plan.keep, "a plan changed what it keeps");
    fuzzing::expect(again.plan.sweeps == saved.plan.sweeps, "a plan changed its sweeps");
    fuzzing::expect(again.plan.offloads == saved.plan.offloads, "a plan changed its offloads");
  } catch (const std::invalid_argument& error) {
    fuzzing::expect_message(error.what());
  }
  return 0;
}
