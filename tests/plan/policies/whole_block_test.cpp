#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gradrecomp/plan/policies.h"
#include "gradrecomp/plan/simulate.h"
#include "support/expect_error.h"
#include "support/plan/step_builder.h"

namespace gradrecomp::plan {
namespace {

using test::expect_invalid;
using test::StepBuilder;

/// A chain of residual blocks of random sizes, and what each of them makes.
struct ResidualChain {
  Graph graph;
  std::vector<std::vector<Index>> insides;
  std::vector<Index> outputs;
};

ResidualChain random_chain(int num_blocks, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto bytes = [&] { return 5 + static_cast<std::int64_t>(random() % 30); };
  const auto seconds = [&] { return 1 + static_cast<double>(random() % 9); };
  ResidualChain chain;
  StepBuilder step;
  const auto run = [&](std::vector<Index> reads) {
    return step.run({.reads = reads, .fresh_bytes = {bytes()}, .seconds = seconds()}).front();
  };
  Index x = run({step.external()});
  for (int b = 0; b < num_blocks; ++b) {
    const Index wide = run({x});
    step.save(x);
    const Index narrow = run({wide});
    step.save(wide);
    step.save(narrow);
    chain.outputs.push_back(x);
    chain.insides.push_back({wide, narrow});
    x = run({x, narrow});
  }
  run({x});
  step.save(x);
  chain.outputs.push_back(x);
  chain.graph = step.finish();
  return chain;
}

/// All ways to do the blocks in runs, simulated: bits of `kept` keep insides, of `held` outputs.
class AllWays {
 public:
  explicit AllWays(const ResidualChain& chain) {
    const auto num_blocks = static_cast<unsigned>(chain.insides.size());
    for (unsigned held = 0; held < 1U << (num_blocks + 1); ++held) {
      for (unsigned kept = 0; kept < 1U << num_blocks; ++kept) {
        // A block that keeps its inside is a run of its own, between two held outputs.
        if ((kept & ~held) != 0 || (kept & ~(held >> 1)) != 0) continue;
        KeptSet keep(chain.graph.values.size(), 0);
        for (unsigned b = 0; b < num_blocks; ++b) {
          for (const Index v : chain.insides[b]) keep[v] = kept >> b & 1;
        }
        for (unsigned b = 0; b <= num_blocks; ++b) keep[chain.outputs[b]] = held >> b & 1;
        ways_.push_back(simulate(chain.graph, keep));
      }
    }
  }

  [[nodiscard]] double least_seconds(double max_peak_bytes) const {
    double least = std::numeric_limits<double>::infinity();
    for (const Simulation& way : ways_) {
      if (static_cast<double>(way.peak_bytes) <= max_peak_bytes) {
        least = std::min(least, way.replay_seconds);
      }
    }
    return least;
  }

  [[nodiscard]] std::int64_t least_peak_bytes() const {
    return std::ranges::min_element(ways_, {}, &Simulation::peak_bytes)->peak_bytes;
  }

 private:
  std::vector<Simulation> ways_;
};

TEST(WholeBlock, IsTheBestOfAllWaysToKeepBlocksWhole) {
  for (int seed = 0; seed < 30; ++seed) {
    const ResidualChain chain = random_chain(5, seed);
    const AllWays ways(chain);
    const auto plain = static_cast<double>(simulate(chain.graph, keep_all(chain.graph)).peak_bytes);
    for (const double share : {0.9, 0.8, 0.7, 0.6, 0.5, 0.1}) {
      const Simulation found = simulate(chain.graph, whole_block(chain.graph, share));
      const double best = ways.least_seconds(share * plain);
      if (best == std::numeric_limits<double>::infinity()) {
        EXPECT_EQ(found.peak_bytes, ways.least_peak_bytes()) << seed << ' ' << share;
      } else {
        EXPECT_LE(static_cast<double>(found.peak_bytes), share * plain);
        EXPECT_EQ(found.replay_seconds, best) << seed << ' ' << share;
      }
    }
  }
}

TEST(WholeBlock, ReplaysNothingWithinThePlainPeak) {
  const ResidualChain chain = random_chain(4, 1);
  EXPECT_EQ(simulate(chain.graph, whole_block(chain.graph, 1)).num_replayed_ops, 0);
}

TEST(WholeBlock, RejectsAShareThatIsNotAboveZero) {
  const Graph graph = random_chain(1, 0).graph;
  expect_invalid([&] { whole_block(graph, 0); }, "share is 0, but must be above 0");
}

}  // namespace
}  // namespace gradrecomp::plan
