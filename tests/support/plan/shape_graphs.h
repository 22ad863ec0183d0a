#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/plan/step_builder.h"

namespace gradrecomp::test {

/// Steps of a shape each, with random bytes and seconds: what no formula of a model gives.
namespace shape_detail {

/// Draws calls that save what they read, as most operators do.
class ShapeStep {
 public:
  explicit ShapeStep(std::uint64_t seed) : random_(seed) {}

  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  Index external() { return step_.external(); }
  void stage(const std::string& name) { step_.stage(name); }

  /// One op that reads `reads`, of which there may be some twice.
  Index op(std::vector<Index> reads, std::int64_t bytes, double seconds) {
    std::ranges::sort(reads);
    reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
    const Index made = step_
                           .run({.name = "shape",
                                 .reads = reads,
                                 .fresh_bytes = {bytes},
                                 .flops = seconds,
                                 .seconds = seconds})
                           .front();
    for (const Index u : reads) step_.save(u);
    return made;
  }

  /// The same with bytes and seconds that chance gives.
  Index op(std::vector<Index> reads) {
    const std::int64_t bytes = 100 + below(900);
    const double seconds = 1 + below(9);
    return op(std::move(reads), bytes, seconds);
  }

  Graph finish() { return step_.finish(); }

 private:
  std::mt19937_64 random_;
  StepBuilder step_;
};

}  // namespace shape_detail

/// Every op reads one to three of the `reach` values before it.
inline Graph dag_graph(int num_ops, int reach, std::uint64_t seed) {
  shape_detail::ShapeStep step(seed);
  std::vector<Index> made{step.external()};
  for (int i = 0; i < num_ops; ++i) {
    if (i % 10 == 0) step.stage("part" + std::to_string(i / 10));
    const int num_near = std::min(reach, static_cast<int>(made.size()));
    std::vector<Index> reads;
    for (int r = step.below(3); r >= 0; --r) {
      reads.push_back(made[made.size() - 1 - static_cast<std::size_t>(step.below(num_near))]);
    }
    made.push_back(step.op(reads));
  }
  return step.finish();
}

/// A binary tree of `depth` levels, summed up from its leaves.
inline Graph tree_graph(int depth, std::uint64_t seed) {
  shape_detail::ShapeStep step(seed);
  std::vector<Index> level;
  for (int leaf = 0; leaf < (1 << depth); ++leaf) {
    if (leaf % 4 == 0) step.stage("leaves" + std::to_string(leaf / 4));
    level.push_back(step.op({step.external()}));
  }
  while (level.size() > 1) {
    step.stage("level" + std::to_string(level.size()));
    std::vector<Index> next;
    for (std::size_t i = 0; i + 1 < level.size(); i += 2) {
      next.push_back(step.op({level[i], level[i + 1]}));
    }
    level = std::move(next);
  }
  return step.finish();
}

/// Each op of `rows` by `columns` reads the one to the left and the one above.
inline Graph grid_graph(int rows, int columns, std::uint64_t seed) {
  shape_detail::ShapeStep step(seed);
  std::vector<Index> above(static_cast<std::size_t>(columns), -1);
  for (int row = 0; row < rows; ++row) {
    step.stage("row" + std::to_string(row));
    Index left = row == 0 ? step.external() : -1;
    for (Index& value : above) {
      std::vector<Index> reads;
      for (const Index u : {left, value}) {
        if (u >= 0) reads.push_back(u);
      }
      left = value = step.op(reads);
    }
  }
  return step.finish();
}

/// `depth` ops down and as many up, each of which also reads what the one across from it made.
inline Graph skip_graph(int depth, std::uint64_t seed) {
  shape_detail::ShapeStep step(seed);
  std::vector<Index> skips;
  Index x = step.external();
  for (int i = 0; i < depth; ++i) {
    step.stage("down" + std::to_string(i));
    x = step.op({step.op({x})});
    skips.push_back(x);
  }
  for (int i = depth - 1; i >= 0; --i) {
    step.stage("up" + std::to_string(i));
    x = step.op({step.op({x, skips[static_cast<std::size_t>(i)]})});
  }
  return step.finish();
}

/// A recurrent cell of two states, written out: a product of what goes in and the one state, four
/// gates and the other state. A cell is a stage.
inline Graph lstm_graph(int num_cells, std::int64_t bytes = 256) {
  shape_detail::ShapeStep step(1);
  Index h = step.external();
  Index c = step.external();
  for (int t = 0; t < num_cells; ++t) {
    step.stage("cell" + std::to_string(t));
    const Index gates = step.op({h, step.external()}, 4 * bytes, 20);
    std::vector<Index> gate;
    for (int g = 0; g < 4; ++g) gate.push_back(step.op({gates}, bytes, 1));
    const Index forgotten = step.op({gate[0], c}, bytes, 1);
    const Index added = step.op({gate[1], gate[2]}, bytes, 1);
    c = step.op({forgotten, added}, bytes, 1);
    h = step.op({gate[3], step.op({c}, bytes, 1)}, bytes, 1);
  }
  return step.finish();
}

/// The same cell where the product is not saved, but what its gates make of it is, so that backward
/// asks for each gate by itself.
inline Graph gated_cells_graph(int num_cells, std::int64_t bytes = 256) {
  StepBuilder step;
  Index h = step.external();
  Index c = step.external();
  const auto run = [&](std::vector<Index> reads, std::int64_t of_bytes, double seconds) {
    return step
        .run({.reads = std::move(reads),
              .fresh_bytes = {of_bytes},
              .flops = seconds,
              .seconds = seconds})
        .front();
  };
  const auto combined = [&](Index u, Index w) {
    const Index made = run({u, w}, bytes, 1);
    step.save(u);
    step.save(w);
    return made;
  };
  for (int t = 0; t < num_cells; ++t) {
    step.stage("cell" + std::to_string(t));
    const Index product = run({h, step.external()}, 4 * bytes, 20);
    step.save(h);
    std::vector<Index> gate;
    for (int g = 0; g < 4; ++g) {
      gate.push_back(run({product}, bytes, 1));
      step.save(gate.back());
    }
    c = run({combined(gate[0], c), combined(gate[1], gate[2])}, bytes, 1);
    const Index bounded = run({c}, bytes, 1);
    step.save(bounded);
    h = combined(gate[3], bounded);
  }
  return step.finish();
}

/// A chain of ops of random bytes and seconds, in stages of ten.
inline Graph long_chain_graph(int num_ops, std::uint64_t seed) {
  shape_detail::ShapeStep step(seed);
  Index x = step.external();
  for (int i = 0; i < num_ops; ++i) {
    if (i % 10 == 0) step.stage("part" + std::to_string(i / 10));
    x = step.op({x});
  }
  return step.finish();
}

}  // namespace gradrecomp::test
