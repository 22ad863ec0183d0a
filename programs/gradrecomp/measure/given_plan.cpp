#include "measure/given_plan.h"

#include <fmt/format.h>

#include "bad_input.h"
#include "gradrecomp/plan/signature.h"

namespace gradrecomp::program {

void check_given_plan(const Region& region, const Workload& workload) {
  const auto& given = region.options().plan;
  if (given == nullptr || given->signature == region.graph().signature) return;
  reject("--plan", "signature", plan::signature_text(given->signature),
         fmt::format("{}, that of {}. Pass a plan made for this model and these options.",
                     plan::signature_text(region.graph().signature), workload.description()));
}

}  // namespace gradrecomp::program
