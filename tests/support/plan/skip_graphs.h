#pragma once

#include <cstdint>
#include <vector>

#include "support/plan/model_graphs.h"

namespace gradrecomp::test {

/// Steps of networks whose skip connections leave few or no places that a single value crosses.
namespace model_detail {

/// Channels of several maps of one size, side by side; autograd saves nothing for it.
inline Map concat(ConvStep& net, const std::vector<Map>& parts) {
  Map y{-1, parts.front().positions, 0};
  std::vector<Index> reads;
  for (const Map& part : parts) {
    y.channels += part.channels;
    reads.push_back(part.value);
  }
  y.value = net.step
                .run({.name = "aten::cat",
                      .reads = reads,
                      .fresh_bytes = {y.bytes()},
                      .seconds = pass_seconds(y.bytes())})
                .front();
  return y;
}

inline Map conv_norm_relu(ConvStep& net, const Map& x, std::int64_t channels) {
  Map y = net.norm(net.conv(x, channels, 3, 1));
  net.relu(y);
  return y;
}

inline Map resample(ConvStep& net, const Map& x, const char* name, std::int64_t positions) {
  Map y{-1, positions, x.channels};
  y.value = net.step
                .run({.name = name,
                      .reads = {x.value},
                      .fresh_bytes = {y.bytes()},
                      .seconds = pass_seconds(x.bytes() + y.bytes())})
                .front();
  return y;
}

}  // namespace model_detail

/// U-Net: two convolutions a level on the way down and up, the halves joined by concatenation.
inline Graph unet_graph(int num_levels, std::int64_t batch, std::int64_t size = 128) {
  model_detail::ConvStep net;
  model_detail::Map x{net.step.external(), batch * size * size, 3};
  std::vector<model_detail::Map> skips;
  for (int level = 0; level <= num_levels; ++level) {
    net.step.stage("down" + std::to_string(level));
    const std::int64_t channels = std::int64_t{32} << level;
    x = conv_norm_relu(net, conv_norm_relu(net, x, channels), channels);
    if (level == num_levels) break;
    skips.push_back(x);
    x = resample(net, x, "aten::avg_pool2d", x.positions / 4);
  }
  for (int level = num_levels - 1; level >= 0; --level) {
    net.step.stage("up" + std::to_string(level));
    const std::int64_t channels = std::int64_t{32} << level;
    x = concat(net, {skips[level], resample(net, x, "aten::upsample_nearest2d", 4 * x.positions)});
    x = conv_norm_relu(net, conv_norm_relu(net, x, channels), channels);
  }
  net.step.run({.name = "aten::mean", .reads = {x.value}, .fresh_bytes = {512}});
  return net.step.finish();
}

/// Dense blocks: every layer reads all maps made before it in its block.
inline Graph densenet_graph(const std::vector<int>& num_layers, std::int64_t batch) {
  constexpr std::int64_t kGrowth = 32;
  model_detail::ConvStep net;
  const model_detail::Map image{net.step.external(), batch * 64 * 64, 3};
  model_detail::Map x = conv_norm_relu(net, image, 64);
  for (std::size_t block = 0; block < num_layers.size(); ++block) {
    std::vector<model_detail::Map> maps{x};
    for (int layer = 0; layer < num_layers[block]; ++layer) {
      net.step.stage("block" + std::to_string(block) + "." + std::to_string(layer));
      model_detail::Map y = net.norm(concat(net, maps));
      net.relu(y);
      y = net.norm(net.conv(y, 4 * kGrowth, 1, 1));
      net.relu(y);
      maps.push_back(net.conv(y, kGrowth, 3, 1));
    }
    net.step.stage("transition" + std::to_string(block));
    x = net.norm(concat(net, maps));
    net.relu(x);
    x = net.conv(x, x.channels / 2, 1, 1);
    x = resample(net, x, "aten::avg_pool2d", x.positions / 4);
  }
  net.step.run({.name = "aten::mean", .reads = {x.value}, .fresh_bytes = {512}});
  return net.step.finish();
}

}  // namespace gradrecomp::test
