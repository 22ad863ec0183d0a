#include <algorithm>

#include "fuzz/program/ending.h"
#include "fuzz/world/dice.h"
#include "fuzz/world/raw_write.h"

namespace gradrecomp::fuzzing {
namespace {

using torch::Tensor;

std::vector<Tensor> parameters(const World& world) {
  return {world.weight, world.bias, world.kernel, world.table, world.gain, world.scale};
}

// With the same shape and strides, as autograd checks those.
Tensor other_memory(const Tensor& tensor) { return tensor.detach().clone().mul_(-0.75); }

void refill(World& world) {
  for (const auto& numbers : world.borrowed) std::ranges::fill(*numbers, -3.0F);
}

}  // namespace

const std::vector<Ending>& hostile_endings() {
  static const std::vector<Ending> all = {Ending::raw_written_input,  Ending::data_of_input,
                                          Ending::data_of_weights,    Ending::set_data_of_input,
                                          Ending::set_data_of_weight, Ending::refilled_memory,
                                          Ending::raw_written_made};
  return all;
}

void write_before_backward(Ending ending, const Finished& finished) {
  Dice dice(finished.seed + 3);
  World& world = finished.world;
  auto input = dice.of(world.inputs);
  switch (ending) {
    case Ending::raw_written_input:
      return raw_write(dice, input.detach());
    case Ending::data_of_input:
      input.data().mul_(0.5);
      return;
    case Ending::data_of_weights:
      for (const auto& parameter : parameters(world)) {
        if (dice.chance(0.5)) parameter.data().add_(0.25);
      }
      return;
    case Ending::set_data_of_input:
      return input.set_data(other_memory(input));
    case Ending::set_data_of_weight: {
      const auto parameter = dice.of(parameters(world));
      return parameter.set_data(other_memory(parameter));
    }
    case Ending::refilled_memory:
      return refill(world);
    case Ending::raw_written_made:
      for (const auto& made : world.made) raw_write(dice, made);
      if (dice.chance(0.5)) world.made.clear();  // which may be all that still holds them
      return;
    default:
      return;
  }
}

}  // namespace gradrecomp::fuzzing
