#include "given_plan.h"

#include <fmt/format.h>

#include <memory>

#include "arguments.h"
#include "bad_input.h"
#include "gradrecomp/plan/plan_file.h"

namespace gradrecomp::program {
namespace {

std::string spelled(std::uint64_t signature) { return fmt::format("0x{:016x}", signature); }

}  // namespace

void add_plan_argument(CLI::App& command, Options& options) {
  add_argument(command, "--plan", "A plan instead, made for this model by gradrecomp plan --out",
               [&](const auto& text) {
                 options.plan = std::make_shared<const plan::Plan>(plan::load_plan(text).plan);
               });
}

void check_given_plan(const Region& region, const Workload& workload) {
  const auto& given = region.options().plan;
  if (given == nullptr || given->signature == region.graph().signature) return;
  reject("--plan", "signature", spelled(given->signature),
         fmt::format("{}, that of {}. Pass a plan made for this model and these options.",
                     spelled(region.graph().signature), workload.description()));
}

}  // namespace gradrecomp::program
