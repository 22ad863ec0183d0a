#include "fuzz/program/program.h"

#include <ATen/core/Generator.h>

#include <sstream>

#include "fuzz/hostile/operations.h"
#include "fuzz/operations/operations.h"
#include "fuzz/program/machine.h"
#include "fuzz/world/autocast_scope.h"
#include "fuzz/world/device.h"
#include "fuzz/world/silence.h"

namespace gradrecomp::fuzzing {
namespace {

const Operation* draw(Dice& dice, const std::vector<Operation>& from) {
  std::int64_t total = 0;
  for (const Operation& operation : from) total += operation.weight;
  std::int64_t ticket = dice.below(total);
  const Operation* operation = from.data();
  while (ticket >= operation->weight) ticket -= (operation++)->weight;
  return operation;
}

Program empty_program(Dice& dice, std::uint64_t seed) {
  Program program;
  program.seed = seed;
  program.careless = dice.chance(0.1);
  program.throws = dice.chance(0.02);
  if (dice.chance(0.08)) {
    program.precision = dice.chance(0.75) ? Precision::bfloat16 : Precision::half;
    program.casts_backward = dice.chance(0.5);
  }
  return program;
}

// Most programs are short, so that many run; a few have 60 steps.
std::int64_t number_of_steps(Dice& dice) {
  return dice.chance(0.15) ? dice.between(25, 60) : dice.between(5, 24);
}

std::vector<Operation> joined(const std::vector<std::vector<Operation>>& kinds) {
  std::vector<Operation> list;
  for (const auto& kind : kinds) list.insert(list.end(), kind.begin(), kind.end());
  return list;
}

}  // namespace

const std::vector<Operation>& operations() {
  static const auto all = joined(
      {pointwise_operations(), view_operations(), write_operations(), index_operations(),
       reduction_operations(), layer_operations(), random_operations(), structure_operations(),
       control_flow_operations(), function_operations(), script_operations(),
       device().is_cpu() ? std::vector<Operation>{} : stream_operations()});
  return all;
}

const std::vector<Operation>& hostile_operations() {
  static const auto all =
      joined({borrowing_operations(), raw_write_operations(), resizing_operations(),
              foreign_tensor_operations(), saving_hook_operations(), collective_operations(),
              inner_backward_operations()});
  return all;
}

Program generate(std::uint64_t seed) {
  Dice dice(seed ^ 0x5eed5eed5eed5eedu);
  Program program = empty_program(dice, seed);
  for (auto count = number_of_steps(dice); count > 0; --count) {
    program.steps.push_back({draw(dice, operations()), dice.next()});
  }
  return program;
}

Program generate_hostile(std::uint64_t seed) {
  Dice dice(seed ^ 0x4057113540571135u);
  Program program = empty_program(dice, seed);
  program.hostile = true;
  const double share = 0.1 + 0.6 * dice.real();
  for (auto count = number_of_steps(dice); count > 0; --count) {
    const auto& from = dice.chance(share) ? hostile_operations() : operations();
    program.steps.push_back({draw(dice, from), dice.next()});
  }
  return program;
}

std::string listing(const Program& program) {
  const Silence silence;
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
