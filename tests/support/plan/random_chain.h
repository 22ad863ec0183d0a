#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "support/plan/step_builder.h"

namespace gradrecomp::test {

/// A chain of single ops, each with random bytes and seconds.
inline Graph random_chain_of_ops(int num_ops, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  ChainOptions chain;
  for (int i = 0; i < num_ops; ++i) {
    chain.bytes.push_back(1 + static_cast<std::int64_t>(random() % 30));
    chain.seconds.push_back(1 + static_cast<double>(random() % 9));
  }
  return chain_graph(chain);
}

/// What a random chain of blocks may contain; each chance is out of 100.
struct RandomChainOptions {
  int num_blocks = 4;
  int least_ops = 2;  ///< of a block
  int most_ops = 4;
  int most_bytes = 60;        ///< of a value
  int in_place_chance = 15;   ///< of an op
  int second_chance = 15;     ///< of an op to make two values
  int must_keep_chance = 0;   ///< of a value that is not overwritten
  int input_chance = 60;      ///< of an op to save what it reads
  int output_chance = 30;     ///< of an op to save what it makes
  int workspace_chance = 30;  ///< of an op to need memory of its own
  int boundary_chance = 100;  ///< of what a block hands on to be saved
  int mask_chance = 0;        ///< of a block to end with a dropout, whose mask may be held packed
  bool operator==(const RandomChainOptions&) const = default;
};

/// A step whose blocks are random DAGs, each with all earlier ones after one value.
class RandomChain {
 public:
  RandomChain(const RandomChainOptions& options, std::uint64_t seed)
      : options_(options), random_(seed) {}

  Graph draw() {
    Index x = step_.external();
    for (int b = 0; b < options_.num_blocks; ++b) {
      step_.stage("block" + std::to_string(b));
      x = draw_block(x);
      if (options_.mask_chance > 0 && chance(options_.mask_chance)) x = drop_out(x);
      if (chance(options_.boundary_chance)) step_.save(x);
    }
    step_.save(x);
    Graph graph = step_.finish();
    for (plan::Value& v : graph.values) {
      const bool can_keep = v.producer >= 0 && v.overwritten_by < 0;
      v.must_keep = can_keep && chance(options_.must_keep_chance);
    }
    return graph;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }

  Index draw_block(Index x) {
    readable_ = {x};
    unread_ = {x};
    input_ = x;
    const int num_ops = options_.least_ops + below(1 + options_.most_ops - options_.least_ops);
    for (int i = 0; i < num_ops; ++i) draw_op(i + 1 == num_ops);
    return readable_.back();
  }

  /// As LibTorch's dropout on CPU is recorded; returns the result.
  Index drop_out(Index x) {
    const std::int64_t bytes = 16 + below(options_.most_bytes);
    const Index memory = step_.run({.name = "memory", .fresh_bytes = {bytes}}).front();
    Call draw{.name = "draw", .reads = {memory}, .fresh_bytes = {bytes / 8}};
    draw.seconds = 1 + below(30);
    const Index packed = step_.run(std::move(draw)).front();
    Index mask = step_.run({.name = "unpack", .reads = {packed}, .takes_over = memory}).front();
    if (chance(70)) mask = step_.run({.name = "scale", .overwrites = {mask}}).front();
    const Index y =
        step_.run({.name = "multiply", .reads = {x, mask}, .fresh_bytes = {bytes}}).front();
    step_.save(mask);
    return y;
  }

  /// The last op of a block reads all that no other has read, and makes one value.
  void draw_op(bool is_last) {
    Call call;
    call.seconds = 1 + below(9);
    call.flops = chance(50) ? 0 : call.seconds;
    call.workspace_bytes = chance(options_.workspace_chance) ? below(40) : 0;
    call.reads = is_last ? unread_ : std::vector<Index>{readable_[below(size())]};
    if (!is_last && chance(40)) call.reads.push_back(readable_[below(size())]);
    std::ranges::sort(call.reads);
    // Not std::ranges::unique: Clang 14 cannot compile that of GCC 12's library.
    call.reads.erase(std::unique(call.reads.begin(), call.reads.end()), call.reads.end());
    const bool in_place = chance(options_.in_place_chance) && call.reads.back() != input_;
    if (in_place) {
      call.overwrites = {call.reads.back()};
      call.reads.pop_back();
    } else {
      call.fresh_bytes = {1 + below(options_.most_bytes)};
      if (!is_last && chance(options_.second_chance)) {
        call.fresh_bytes.push_back(1 + below(options_.most_bytes));
      }
    }
    run(std::move(call));
  }

  [[nodiscard]] int size() const { return static_cast<int>(readable_.size()); }

  void run(Call call) {
    std::vector<Index> read = call.reads;
    for (const Index u : call.overwrites) {
      read.push_back(u);
      std::erase(readable_, u);
    }
    for (const Index u : read) std::erase(unread_, u);
    const std::vector<Index> made = step_.run(std::move(call));
    for (const Index v : made) {
      readable_.push_back(v);
      unread_.push_back(v);
    }
    for (const Index v : read) {
      if (chance(options_.input_chance)) step_.save(v);
    }
    for (const Index v : made) {
      if (chance(options_.output_chance)) step_.save(v);
    }
  }

  RandomChainOptions options_;
  std::mt19937_64 random_;
  StepBuilder step_;
  std::vector<Index> readable_;  ///< of the current block
  std::vector<Index> unread_;
  Index input_ = -1;
};

}  // namespace gradrecomp::test
