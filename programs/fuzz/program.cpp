#include "program.h"

#include <ATen/core/Generator.h>

#include <sstream>

#include "autocast_scope.h"
#include "machine.h"
#include "operations.h"

namespace gradrecomp::fuzzing {
namespace {

const Operation* draw(Dice& dice) {
  static const std::int64_t total = [] {
    std::int64_t sum = 0;
    for (const Operation& operation : operations()) sum += operation.weight;
    return sum;
  }();
  std::int64_t ticket = dice.below(total);
  const Operation* operation = operations().data();
  while (ticket >= operation->weight) ticket -= (operation++)->weight;
  return operation;
}

struct Silence : c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

}  // namespace

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = [] {
    std::vector<Operation> list;
    for (const auto& kind :
         {pointwise_operations(), view_operations(), write_operations(), index_operations(),
          reduction_operations(), layer_operations(), random_operations(), structure_operations(),
          control_flow_operations(), function_operations(), script_operations()}) {
      list.insert(list.end(), kind.begin(), kind.end());
    }
    return list;
  }();
  return all;
}

Program generate(std::uint64_t seed) {
  Dice dice(seed ^ 0x5eed5eed5eed5eedu);
  Program program;
  program.seed = seed;
  program.careless = dice.chance(0.1);
  program.throws = dice.chance(0.02);
  if (dice.chance(0.08)) {
    program.precision = dice.chance(0.75) ? Precision::bfloat16 : Precision::half;
    program.casts_backward = dice.chance(0.5);
  }
  // Most programs are short, so that many run; a few have 60 steps.
  const auto count = dice.chance(0.15) ? dice.between(25, 60) : dice.between(5, 24);
  for (std::int64_t i = 0; i < count; ++i) program.steps.push_back({draw(dice), dice.next()});
  return program;
}

std::string listing(const Program& program) {
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  World world(program.seed);
  const AutocastScope autocast(program.precision);
  torch::manual_seed(program.seed);
  Machine machine(program, world);
  machine.keeps_listing = true;
  try {
    machine.run();
  } catch (const c10::Error&) {
    return machine.listing() + "ends with an error\n";
  }
  return machine.listing();
}

}  // namespace gradrecomp::fuzzing
