#include "given_plan.h"

#include <fmt/format.h>

#include <memory>

#include "arguments.h"
#include "bad_input.h"
#include "gradrecomp/plan/plan_file.h"
#include "gradrecomp/plan/signature.h"

namespace gradrecomp::program {

void add_plan_argument(CLI::App& command, Options& options) {
  add_argument(command, "--plan", "A plan instead, made for this model by gradrecomp plan --out",
               [&](const auto& text) {
                 options.plan = std::make_shared<const plan::Plan>(plan::load_plan(text).plan);
               });
}

void check_given_plan(const Region& region, const Workload& workload) {
  const auto& given = region.options().plan;
  if (given == nullptr || given->signature == region.graph().signature) return;
  reject("--plan", "signature", plan::signature_text(given->signature),
         fmt::format("{}, that of {}. Pass a plan made for this model and these options.",
                     plan::signature_text(region.graph().signature), workload.description()));
}

}  // namespace gradrecomp::program
