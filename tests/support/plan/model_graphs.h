#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/plan/step_builder.h"

namespace gradrecomp::test {

/// The steps of models as the profiler would log them, with formula costs. No Torch.
namespace model_detail {

constexpr double kFlopsPerSecond = 100e9;
constexpr double kBytesPerSecond = 10e9;

/// Feature maps: how many positions, and how many channels a value has.
struct Map {
  Index value = -1;
  std::int64_t positions = 0;
  std::int64_t channels = 0;
  [[nodiscard]] std::int64_t bytes() const { return 4 * positions * channels; }
};

inline double pass_seconds(std::int64_t bytes) { return 2.0 * bytes / kBytesPerSecond; }

/// The builder's calls of a convolution network.
class ConvStep {
 public:
  StepBuilder step;

  Map conv(const Map& x, std::int64_t channels, std::int64_t kernel, std::int64_t stride) {
    Map y{-1, x.positions / (stride * stride), channels};
    const double flops = 2.0 * y.positions * channels * x.channels * kernel * kernel;
    y.value = step.run({.name = "aten::convolution",
                        .reads = {x.value},
                        .fresh_bytes = {y.bytes()},
                        .flops = flops,
                        .seconds = flops / kFlopsPerSecond})
                  .front();
    step.save(x.value);
    return y;
  }

  Map norm(const Map& x) {
    Map y = x;
    const auto outputs = step.run({.name = "aten::native_batch_norm",
                                   .reads = {x.value},
                                   .fresh_bytes = {x.bytes(), 4 * x.channels, 4 * x.channels},
                                   .seconds = 2 * pass_seconds(x.bytes())});
    y.value = outputs[0];
    step.save(x.value);
    step.save(outputs[1]);
    step.save(outputs[2]);
    return y;
  }

  void relu(Map& x) {
    x.value = step.run({.name = "aten::relu_",
                        .overwrites = {x.value},
                        .seconds = pass_seconds(x.bytes())})
                  .front();
    step.save(x.value);
  }

  void add(Map& x, const Map& y) {
    x.value = step.run({.name = "aten::add_",
                        .reads = {y.value},
                        .overwrites = {x.value},
                        .seconds = pass_seconds(x.bytes())})
                  .front();
  }

  Map bottleneck(const Map& x, std::int64_t width, std::int64_t stride) {
    Map y = norm(conv(x, width, 1, 1));
    relu(y);
    y = norm(conv(y, width, 3, stride));
    relu(y);
    y = norm(conv(y, 4 * width, 1, 1));
    const bool same = stride == 1 && x.channels == 4 * width;
    add(y, same ? x : norm(conv(x, 4 * width, 1, stride)));
    relu(y);
    return y;
  }
};

}  // namespace model_detail

/// ResNet of bottleneck blocks on 224 x 224 images; {3, 8, 36, 3} is ResNet-152.
inline Graph resnet_graph(const std::vector<int>& num_blocks, std::int64_t batch) {
  model_detail::ConvStep net;
  net.step.stage("stem");
  const model_detail::Map image{net.step.external(), batch * 224 * 224, 3};
  model_detail::Map x = net.norm(net.conv(image, 64, 7, 2));
  net.relu(x);
  model_detail::Map pooled{-1, x.positions / 4, x.channels};
  const auto pool = net.step.run({.name = "aten::max_pool2d_with_indices",
                                  .reads = {x.value},
                                  .fresh_bytes = {pooled.bytes(), 2 * pooled.bytes()},
                                  .seconds = model_detail::pass_seconds(x.bytes())});
  net.step.save(x.value);
  net.step.save(pool[1]);
  pooled.value = pool[0];
  x = pooled;
  for (std::size_t l = 0; l < num_blocks.size(); ++l) {
    for (int b = 0; b < num_blocks[l]; ++b) {
      net.step.stage("layer" + std::to_string(l + 1) + "." + std::to_string(b));
      x = net.bottleneck(x, std::int64_t{64} << l, l > 0 && b == 0 ? 2 : 1);
    }
  }
  net.step.stage("head");
  net.step.run({.name = "aten::mean", .reads = {x.value}, .fresh_bytes = {4 * batch * x.channels}});
  return net.step.finish();
}

/// Layers of a BERT encoder of 1024 channels, post-norm, with dropout masks saved.
inline Graph bert_graph(int num_layers, std::int64_t batch, std::int64_t length) {
  using model_detail::pass_seconds;
  StepBuilder step;
  const std::int64_t tokens = batch * length;
  constexpr std::int64_t kWidth = 1024;
  const std::int64_t map = 4 * tokens * kWidth;
  const auto gemm = [&](Index x, std::int64_t in, std::int64_t out) {
    const double flops = 2.0 * tokens * in * out;
    const Index y = step.run({.name = "aten::addmm",
                              .reads = {x},
                              .fresh_bytes = {4 * tokens * out},
                              .flops = flops,
                              .seconds = flops / model_detail::kFlopsPerSecond})
                        .front();
    step.save(x);
    return y;
  };
  const auto finish_half = [&](Index x, Index residual) {
    const auto dropped = step.run({.name = "aten::native_dropout",
                                   .reads = {x},
                                   .fresh_bytes = {map, map / 4},
                                   .seconds = pass_seconds(map)});
    step.save(dropped[1]);
    const Index sum = step.run({.name = "aten::add",
                                .reads = {dropped[0], residual},
                                .fresh_bytes = {map},
                                .seconds = pass_seconds(map)})
                          .front();
    const auto normed = step.run({.name = "aten::native_layer_norm",
                                  .reads = {sum},
                                  .fresh_bytes = {map, 4 * tokens, 4 * tokens},
                                  .seconds = 2 * pass_seconds(map)});
    for (const Index v : {sum, normed[1], normed[2]}) step.save(v);
    return normed[0];
  };
  Index x = step.run({.name = "aten::embedding", .reads = {step.external()}, .fresh_bytes = {map}})
                .front();
  for (int layer = 0; layer < num_layers; ++layer) {
    step.stage("layer" + std::to_string(layer));
    const std::vector<Index> qkv{gemm(x, kWidth, kWidth), gemm(x, kWidth, kWidth),
                                 gemm(x, kWidth, kWidth)};
    const double flops = 4.0 * tokens * length * kWidth;
    const auto attention = step.run({.name = "aten::_scaled_dot_product_flash_attention_for_cpu",
                                     .reads = qkv,
                                     .fresh_bytes = {map, 64 * tokens},
                                     .flops = flops,
                                     .seconds = flops / model_detail::kFlopsPerSecond});
    for (const Index v : {qkv[0], qkv[1], qkv[2], attention[0], attention[1]}) step.save(v);
    x = finish_half(gemm(attention[0], kWidth, kWidth), x);
    const Index wide = gemm(x, kWidth, 4 * kWidth);
    const Index active = step.run({.name = "aten::gelu",
                                   .reads = {wide},
                                   .fresh_bytes = {4 * map},
                                   .seconds = 4 * pass_seconds(map)})
                             .front();
    step.save(wide);
    x = finish_half(gemm(active, 4 * kWidth, kWidth), x);
  }
  step.run({.name = "aten::mean", .reads = {x}, .fresh_bytes = {512}});
  return step.finish();
}

}  // namespace gradrecomp::test
