#include "fuzz/world/world.h"

#include <algorithm>
#include <utility>

#include "fuzz/world/device.h"

namespace gradrecomp::fuzzing {
namespace {

Sizes random_sizes(Dice& dice) {
  Sizes sizes;
  sizes.batch = dice.chance(0.03) ? 0 : dice.between(1, 3);
  sizes.heads = dice.between(1, 2);
  sizes.channels = 2 * dice.between(1, 2);
  sizes.length = dice.between(2, 5);
  sizes.height = dice.between(3, 6);
  sizes.width = dice.between(3, 6);
  sizes.features = sizes.heads * dice.between(2, 4);
  sizes.words = dice.between(4, 9);
  return sizes;
}

}  // namespace

World::World(std::uint64_t seed, const Variant& variant)
    : generator(new_generator(seed + 1)), dice_(seed), numbers_(~seed ^ (variant.data << 32)) {
  Dice dice_of_sizes(seed + variant.sizes);
  sizes = random_sizes(dice_of_sizes);
  const auto [n, c, l, h, w, f, v, heads] = sizes;
  weight = parameter("weight", {f, f}, 0.5);
  bias = parameter("bias", {f}, 0.3);
  kernel = parameter("kernel", {c, c, 3, 3}, 0.3);
  kernel_1d = parameter("kernel_1d", {c, c, 3}, 0.4);
  table = parameter("table", {v, f}, 0.8);
  channel_gain = parameter("channel_gain", {c}, 0.9);
  channel_bias = parameter("channel_bias", {c}, 0.3);
  gain = parameter("gain", {f}, 0.9);
  scale = parameter("scale", {}, 0.9);
  for (const auto& shape :
       std::vector<std::vector<std::int64_t>>{{n, f}, {n, l, f}, {n, c, h, w}, {n, c, l}}) {
    inputs.push_back(input(shape));
  }
  running_mean = buffer("running_mean", torch::zeros({c}, device()));
  running_var = buffer("running_var", torch::ones({c}, device()));
  counter = buffer("counter", torch::zeros({}, on_device(torch::kLong)));
  memory = buffer("memory", filled({l, f}, 0.5));
  words = torch::empty({n, l}, torch::kLong);
  auto* word = words.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < words.numel(); ++i) word[i] = numbers_.below(v);
  words = words.to(device());
  quirk = static_cast<std::size_t>(Dice(seed * 3 + variant.data).below(4));
}

void World::give_gradients(std::uint64_t seed) {
  Dice dice(seed);
  for (auto& leaf : leaves) {
    // A region does not know the leaves that its inputs come from.
    const bool is_behind =
        leaf.name.starts_with("input") &&
        std::ranges::none_of(inputs, [&](const auto& input) { return input.is_same(leaf.tensor); });
    const bool has_one = seed != 0 && dice.chance(0.6);
    if (has_one && !is_behind) leaf.tensor.mutable_grad() = torch::zeros_like(leaf.tensor);
  }
}

torch::Tensor World::filled(at::IntArrayRef shape, double scale_of_values) {
  auto tensor = torch::empty(shape);
  auto* item = tensor.data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    item[i] = static_cast<float>((2 * numbers_.real() - 1) * scale_of_values);
  }
  return tensor.to(device());
}

torch::Tensor World::parameter(const std::string& name, at::IntArrayRef shape,
                               double scale_of_values) {
  auto tensor = filled(shape, scale_of_values).requires_grad_();
  leaves.push_back({name, tensor});
  return tensor;
}

torch::Tensor World::buffer(const std::string& name, torch::Tensor tensor) {
  buffers.push_back({name, tensor});
  return tensor;
}

// Contiguous, transposed in memory, expanded, or cut out of something larger.
torch::Tensor World::with_layout(at::IntArrayRef shape) {
  switch (dice_.below(8)) {
    case 0: {
      auto reversed = shape.vec();
      std::swap(reversed[0], reversed.back());
      return filled(reversed, 1.0).transpose(0, -1);
    }
    case 1: {
      auto one = shape.vec();
      one[0] = 1;
      return filled(one, 1.0).expand(shape);
    }
    case 2: {
      auto wide = shape.vec();
      wide.back() = 2 * wide.back() + 1;
      return filled(wide, 1.0).slice(-1, 1, wide.back(), 2);
    }
    case 3:
      return shape.size() == 4 ? filled(shape, 1.0).contiguous(at::MemoryFormat::ChannelsLast)
                               : filled(shape, 1.0);
    default:
      return filled(shape, 1.0);
  }
}

// An input without gradient, a leaf, or the result of something before the region.
torch::Tensor World::input(at::IntArrayRef shape) {
  auto tensor = with_layout(shape);
  const auto kind = dice_.below(3);
  if (kind == 0) return tensor;
  leaves.push_back({"input " + std::to_string(inputs.size()), tensor.requires_grad_()});
  return kind == 1 ? tensor : tensor * 0.9;
}

}  // namespace gradrecomp::fuzzing
