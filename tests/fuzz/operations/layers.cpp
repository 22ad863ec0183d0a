#include <algorithm>
#include <cmath>

#include "fuzz/operations/operations.h"
#include "fuzz/program/machine.h"
#include "fuzz/world/device.h"

namespace gradrecomp::fuzzing {
namespace {

using torch::Tensor;

Tensor rows(Machine& machine) { return machine.pick_shaped({3, machine.sizes().features}); }

Tensor image(Machine& machine) {
  const auto& sizes = machine.sizes();
  return machine.pick_shaped(
      {std::max<std::int64_t>(sizes.batch, 1), sizes.channels, sizes.height, sizes.width});
}

Tensor sequence(Machine& machine) {
  const auto& sizes = machine.sizes();
  return machine.pick_shaped({sizes.batch, sizes.length, sizes.features});
}

void linear(Machine& machine) {
  auto& world = machine.world();
  const auto x = machine.dice().chance(0.5) ? rows(machine) : sequence(machine);
  const bool with_bias = machine.dice().chance(0.7);
  machine.push_writable(torch::linear(x, world.weight, with_bias ? world.bias : Tensor()));
}

void multiply_matrices(Machine& machine) {
  auto& world = machine.world();
  const auto x = rows(machine);
  switch (machine.dice().below(7)) {
    case 0:
      return machine.push_writable(x.mm(world.weight));
    case 1:
      return machine.push_writable(x.mm(machine.pick_shaped(x.sizes()).t()) * 0.3);
    case 2:
      return machine.push_writable(torch::addmm(world.bias, x, world.weight.t()));
    case 3:
      return machine.push_writable(x.mv(world.bias));
    case 4:
      return machine.push_writable(torch::outer(world.bias, x[0].tanh()));
    case 5:
      return machine.push_writable(torch::einsum("nf,fg->gn", {x, world.weight}));
    default:
      return machine.push_writable(x.matmul(world.weight).matmul(world.weight));
  }
}

void multiply_batches(Machine& machine) {
  const auto& sizes = machine.sizes();
  const auto a = sequence(machine);
  const auto b = machine.pick_shaped({sizes.batch, sizes.features, sizes.length}).tanh();
  switch (machine.dice().below(3)) {
    case 0:
      return machine.push_writable(a.bmm(b) * 0.3);
    case 1:
      return machine.push_writable(a.matmul(machine.world().weight));
    default:
      return machine.push_writable(torch::baddbmm(machine.world().scale, a, b, 1, 0.3));
  }
}

void convolve_image(Machine& machine) {
  auto& world = machine.world();
  const auto channels = world.sizes.channels;
  auto x = image(machine);
  if (machine.dice().chance(0.2)) x = x.contiguous(at::MemoryFormat::ChannelsLast);
  switch (machine.dice().below(5)) {
    case 0:
      return machine.push_writable(torch::conv2d(x, world.kernel, {}, 1, 1));
    case 1:
      return machine.push_writable(torch::conv2d(x, world.kernel, world.channel_bias, 2, 1));
    case 2:
      return machine.push_writable(torch::conv2d(x, world.kernel, {}, 1, 2, 2));
    case 3:
      return machine.push_writable(
          torch::conv2d(x, world.kernel.narrow(1, 0, 1), world.channel_bias, 1, 1, 1, channels));
    default:
      return machine.push_writable(torch::conv_transpose2d(x, world.kernel, {}, 1, 1));
  }
}

void convolve_signal(Machine& machine) {
  auto& world = machine.world();
  const auto& sizes = world.sizes;
  const auto x = machine.pick_shaped({sizes.batch, sizes.channels, sizes.length});
  machine.push_writable(torch::conv1d(x, world.kernel_1d, world.channel_bias, 1, 1));
}

void normalize(Machine& machine) {
  auto& world = machine.world();
  const auto channels = world.sizes.channels;
  const auto features = world.sizes.features;
  switch (machine.dice().below(7)) {
    case 0:
      return machine.push_writable(
          torch::layer_norm(sequence(machine), {features}, world.gain, world.bias));
    case 1:
      return machine.push_writable(torch::layer_norm(rows(machine), {features}));
    // Contiguous, as the backward of LibTorch 2.11 reads past a channels_last gradient.
    case 2:
      return machine.push_writable(torch::group_norm(image(machine).contiguous(), channels / 2,
                                                     world.channel_gain, world.channel_bias));
    case 3:
      return machine.push_writable(torch::instance_norm(
          image(machine), world.channel_gain, world.channel_bias, {}, {}, true, 0.1, 1e-5, false));
    case 4:
      return machine.push(at::rms_norm(rows(machine), {features}, world.gain));
    case 5: {
      const auto x = rows(machine);
      return machine.push(x / (x.norm(2, 1, true) + 0.1));
    }
    default:
      return machine.push_writable(torch::instance_norm(image(machine), {}, {}, world.running_mean,
                                                        world.running_var, true, 0.2, 1e-5, false));
  }
}

void normalize_batch(Machine& machine) {
  auto& world = machine.world();
  const bool training = machine.dice().chance(0.7);
  const bool tracked = !training || machine.dice().chance(0.7);
  const bool affine = machine.dice().chance(0.7);
  const auto x = image(machine);
  machine.push_writable(torch::batch_norm(
      x, affine ? world.channel_gain : Tensor(), affine ? world.channel_bias : Tensor(),
      tracked ? world.running_mean : Tensor(), tracked ? world.running_var : Tensor(), training,
      0.1, 1e-5, false));
  if (training && tracked) world.counter.add_(1);
}

void attend(Machine& machine) {
  const auto& sizes = machine.sizes();
  const auto heads = [&](const Tensor& x) {
    return x.view({sizes.batch, sizes.length, sizes.heads, -1}).transpose(1, 2);
  };
  const auto query = heads(sequence(machine));
  const auto key = heads(sequence(machine).contiguous().clone());
  const auto value = heads(torch::linear(sequence(machine), machine.world().weight));
  const double dropout = machine.dice().chance(0.3) ? 0.2 : 0.0;
  const bool causal = machine.dice().chance(0.5);
  std::optional<Tensor> mask;
  if (!causal && machine.dice().chance(0.4)) {
    mask = torch::ones({sizes.length, sizes.length}, on_device(torch::kBool)).tril();
  }
  machine.push(at::scaled_dot_product_attention(query, key, value, mask, dropout, causal)
                   .transpose(1, 2)
                   .reshape({sizes.batch, sizes.length, sizes.features}));
}

void attend_by_hand(Machine& machine) {
  const auto x = sequence(machine);
  auto scores = x.matmul(x.transpose(1, 2)) / std::sqrt(static_cast<double>(x.size(2)));
  scores = scores.masked_fill(torch::ones_like(scores[0]).triu(1).to(torch::kBool), -1e4);
  machine.push(torch::dropout(scores.softmax(-1), 0.2, true).matmul(x));
}

void pool(Machine& machine) {
  const auto x = image(machine);
  switch (machine.dice().below(8)) {
    case 0:
      return machine.push(torch::max_pool2d(x, 2));
    case 1: {
      const auto [values, indices] = torch::max_pool2d_with_indices(x, 2);
      machine.push(torch::max_unpool2d(values, indices, {x.size(2), x.size(3)}));
      return machine.push(indices);
    }
    case 2:
      return machine.push_writable(torch::avg_pool2d(x, 2));
    case 3:
      return machine.push_writable(torch::adaptive_avg_pool2d(x, {1, 1}));
    case 4:
      return machine.push(std::get<0>(torch::adaptive_max_pool2d(x, {2, 2})));
    case 5:
      return machine.push(torch::max_pool1d(x.flatten(2), 2));
    case 6:
      return machine.push(at::upsample_nearest2d(x, {4, 4}));
    default:
      return machine.push(at::upsample_bilinear2d(x, {4, 5}, false));
  }
}

void rearrange(Machine& machine) {
  const auto x = image(machine);
  switch (machine.dice().below(4)) {
    case 0:
      return machine.push_writable(torch::constant_pad_nd(x, {1, 0, 0, 1}, 0.1));
    case 1:
      return machine.push(torch::reflection_pad2d(x, {1, 1, 1, 1}));
    case 2:
      return machine.push(torch::im2col(x, {2, 2}, {1, 1}, {0, 0}, {1, 1}));
    default:
      return machine.push(torch::pixel_unshuffle(x.slice(2, 0, 2).slice(3, 0, 2), 2));
  }
}

void recur(Machine& machine) {
  auto& world = machine.world();
  const auto x = rows(machine);
  auto state = torch::zeros_like(x);
  for (auto steps = machine.dice().between(2, 4); steps > 0; --steps) {
    const auto gates = torch::linear(x, world.weight, world.bias) + state.mm(world.weight.t());
    const auto update = torch::sigmoid(gates);
    state = update * state + (1 - update) * torch::tanh(gates);
  }
  machine.push_writable(state);
}

void recur_in_cells(Machine& machine) {
  auto& world = machine.world();
  const auto x = rows(machine);
  const auto stacked = torch::cat({world.weight, world.weight.tanh(), world.weight * 0.5}, 0);
  auto state = torch::zeros_like(x);
  for (int i = 0; i < 2; ++i) state = torch::gru_cell(x, state, stacked, stacked);
  machine.push(state);
}

void recur_in_layer(Machine& machine) {
  auto& world = machine.world();
  const auto& sizes = world.sizes;
  const auto x = machine.pick_shaped({sizes.length, 2, sizes.features});
  const auto w = torch::cat({world.weight, world.weight, world.weight * 0.5, world.weight}, 0);
  const auto b = torch::cat({world.bias, world.bias, world.bias, world.bias});
  const auto zero = torch::zeros({1, 2, sizes.features}, device());
  const auto [out, h, cell] =
      torch::lstm(x, {zero, zero}, {w, w, b, b}, true, 1, 0.0, true, false, false);
  machine.push(out);
  machine.push(cell);
}

}  // namespace

std::vector<Operation> layer_operations() {
  return {{"linear", 8, linear},
          {"multiply_matrices", 4, multiply_matrices},
          {"multiply_batches", 3, multiply_batches},
          {"convolve_image", 4, convolve_image},
          {"convolve_signal", 2, convolve_signal},
          {"normalize", 5, normalize},
          {"normalize_batch", 4, normalize_batch},
          {"attend", 3, attend},
          {"attend_by_hand", 1, attend_by_hand},
          {"pool", 4, pool},
          {"rearrange", 2, rearrange},
          {"recur", 1, recur},
          {"recur_in_cells", 1, recur_in_cells},
          {"recur_in_layer", 1, recur_in_layer}};
}

}  // namespace gradrecomp::fuzzing
