#include "plan/blocks/menu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "gradrecomp/plan/simulate.h"
#include "support/plan/random_chain.h"
#include "support/plan/random_graph.h"

namespace gradrecomp::plan {
namespace {

constexpr double kRounding = 1e-12;  // of sums in another order
constexpr MenuSize kUncapped{
    .num_simulations = 1 << 20, .num_options = 1 << 20, .num_just_in_time = 1 << 20};

/// What a set of kept values does, measured without the menu's own code.
struct Figures {
  bool linked = false;
  std::int64_t retained = 0;
  std::int64_t swept = 0;
  std::int64_t early = 0;
  std::int64_t late = 0;
  double cost = 0;
  double pass_cost = 0;

  [[nodiscard]] bool as_good_as(const Figures& other, double rounding = 0) const {
    return linked == other.linked && retained <= other.retained && swept <= other.swept &&
           early <= other.early && late <= other.late && cost <= other.cost + rounding &&
           pass_cost <= other.pass_cost + rounding;
  }
  [[nodiscard]] bool equals(const Figures& other) const {
    return as_good_as(other, kRounding) && other.as_good_as(*this, kRounding);
  }
};

Figures figures_of(const Option& o) {
  return {o.linked,          o.retained_bytes, o.swept_bytes, o.early_peak_bytes,
          o.late_peak_bytes, o.cost,           o.pass_cost};
}

struct Fate {
  CutFate out = CutFate::kept;
  CutFate in = CutFate::kept;
};

std::vector<Fate> fates(const BlockGraph& block) {
  std::vector<Fate> found;
  for (const CutFate out : fates_of(block.boundary, block.num_large_boundary)) {
    for (const CutFate in : fates_of(block.inputs, block.num_large_inputs))
      found.push_back({out, in});
  }
  return found;
}

class Meter {
 public:
  Meter(const BlockGraph& block, const ReplayCost& replay_cost)
      : block_(block), replay_cost_(replay_cost), simulator_(block.graph) {}

  Figures measure(std::uint64_t kept, Fate fate, bool just_in_time) {
    const std::vector<Index> at_once(block_.graph.values.size(), 0);
    const Simulation result = run(kept, fate, just_in_time ? first_demands() : at_once);
    Figures found;
    found.retained = result.seal_bytes;
    found.swept = timeline_.live_bytes[block_.sweep_end - 1] - result.seal_bytes;
    found.cost = just_in_time ? replay_cost_.passing(result) : replay_cost_.total(result);
    for (std::size_t i = 0; i < timeline_.replayed_ops.size(); ++i) {
      const bool in_sweep = timeline_.replay_events[i] < block_.sweep_end;
      const Op& op = block_.graph.ops[timeline_.replayed_ops[i]];
      found.pass_cost += in_sweep ? replay_cost_.passing(op) : 0;
    }
    const Index reached = reach(0);
    found.linked = reached < block_.sweep_end;
    found.early = highest(0, found.linked ? num_events() : reached);
    found.late = found.linked ? 0 : highest(reached, num_events());
    return found;
  }

  /// The peak from the block's own reach on where no later block's replay has made its inputs.
  std::int64_t tail_peak(const Option& option, Fate fate) {
    std::vector<Index> from(block_.graph.values.size(), 0);
    if (option.timing.just_in_time) from = first_demands();
    for (const Index v : block_.inputs) from[v] = option.linked ? block_.sweep_end : 0;
    run(option.kept, fate, from);
    return highest(reach(option.linked ? block_.sweep_end : 0), num_events());
  }

 private:
  [[nodiscard]] Index num_events() const { return static_cast<Index>(block_.graph.events.size()); }

  Simulation run(std::uint64_t kept, Fate fate, const std::vector<Index>& cached_from) {
    const KeptSet keep = kept_in_block(block_, kept, fate.out, fate.in);
    return simulator_.run(keep, simulator_.defer(keep, cached_from), timeline_);
  }

  /// The first event from `begin` on that replays what stands for the earlier blocks.
  [[nodiscard]] Index reach(Index begin) const {
    Index first = num_events();
    for (std::size_t i = 0; i < timeline_.replayed_ops.size(); ++i) {
      const bool reaches = timeline_.replayed_ops[i] == 0 && !block_.inputs.empty();
      const Index event = timeline_.replay_events[i];
      if (reaches && event >= begin) first = std::min(first, event);
    }
    return first;
  }

  [[nodiscard]] std::int64_t highest(Index begin, Index end) const {
    std::int64_t peak = 0;
    for (Index t = begin; t < end; ++t) peak = std::max(peak, timeline_.peak_bytes[t]);
    return peak;
  }

  /// Per value made inside, its first demand by backward; 0 for others.
  [[nodiscard]] std::vector<Index> first_demands() const {
    std::map<Index, Index> first;
    const auto& events = block_.graph.events;
    for (Index t = block_.sweep_end; t < num_events(); ++t) {
      if (events[t].kind == EventKind::demand) first.emplace(events[t].id, t);
    }
    for (const Index v : block_.inputs) first.erase(v);
    for (const Index v : block_.boundary) first.erase(v);
    std::vector<Index> from(block_.graph.values.size(), 0);
    for (const auto& [v, t] : first) from[v] = t;
    return from;
  }

  const BlockGraph& block_;
  const ReplayCost& replay_cost_;
  Simulator simulator_;
  Timeline timeline_;
};

std::vector<BlockGraph> blocks_of(const Graph& graph) {
  const std::vector<Constraint> open(graph.values.size(), Constraint::open);
  return make_block_graphs(graph, find_blocks(graph, 128), open, 0);
}

struct Count {
  int num_menus = 0;
  int num_sets = 0;
  int num_missed = 0;

  void print(const char* what) const {
    std::cout << num_menus << " menus, " << num_sets << " sets, " << num_missed << ' ' << what
              << '\n';
  }
};

struct Choices {
  std::size_t least = 0;
  std::size_t most = 12;
};

/// Calls `visit` for every block of so many choices of random graphs.
template <typename Draw, typename Visit>
void for_each_block(Draw draw, int num_graphs, const Choices& choices, Visit visit) {
  for (int seed = 0; seed < num_graphs && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = draw(seed);
    const ReplayCost replay_cost(graph, seed % 2 == 0 ? CostModel::seconds : CostModel::flops);
    for (const BlockGraph& block : blocks_of(graph)) {
      const std::size_t num_choices = block.choices.size();
      if (num_choices >= choices.least && num_choices <= choices.most) visit(block, replay_cost);
    }
  }
}

/// Counts the sets of choices that no option is as good as in all figures at once.
void count_missed(const BlockGraph& block, const ReplayCost& replay_cost, Count& count) {
  const Menu menu = make_menu(block, replay_cost, kUncapped);
  Meter meter(block, replay_cost);
  for (const Fate fate : fates(block)) {
    std::vector<Figures> plain;
    for (const Option& o : menu.of(fate.out, fate.in)) {
      if (!o.timing.just_in_time) plain.push_back(figures_of(o));
    }
    for (std::uint64_t kept = 0; kept < std::uint64_t{1} << block.choices.size(); ++kept) {
      const Figures found = meter.measure(kept, fate, false);
      const auto covers = [&](const Figures& f) { return f.as_good_as(found, kRounding); };
      count.num_missed += std::ranges::any_of(plain, covers) ? 0 : 1;
      ++count.num_sets;
    }
    ++count.num_menus;
  }
}

template <typename Draw>
Count count_missed(Draw draw, int num_graphs, const Choices& choices) {
  Count count;
  for_each_block(draw, num_graphs, choices,
                 [&](const BlockGraph& block, const ReplayCost& replay_cost) {
                   count_missed(block, replay_cost, count);
                 });
  count.print("better than every option in some figure");
  EXPECT_GT(count.num_sets, 1000);
  return count;
}

Graph small_chain(int seed) { return test::RandomChain({.most_ops = 7}, seed).draw(); }
Graph fixed_chain(int seed) {
  return test::RandomChain({.most_ops = 8, .must_keep_chance = 15, .input_chance = 40}, seed)
      .draw();
}
Graph small_graph(int seed) { return test::RandomGraph({.num_ops = 8}, seed).draw(); }
Graph in_place_graph(int seed) {
  return test::RandomGraph({.num_ops = 10, .in_place_chance = 60, .death_chance = 60}, seed).draw();
}

TEST(Menu, HoldsAllThatIsBestOfFewChoices) {
  constexpr Choices kFew{.most = 8};
  EXPECT_EQ(count_missed(small_chain, 200, kFew).num_missed, 0);
  EXPECT_EQ(count_missed(fixed_chain, 200, kFew).num_missed, 0);
  EXPECT_EQ(count_missed(small_graph, 400, kFew).num_missed, 0);
  EXPECT_EQ(count_missed(in_place_graph, 400, kFew).num_missed, 0);
}

// Of more choices the search keeps or drops one at a time, and only of the best found so far; what
// it cannot reach that way it misses.
TEST(Menu, HoldsNearlyAllThatIsBestOfMoreChoices) {
  const auto draw = [](int seed) {
    return test::RandomChain({.num_blocks = 2, .least_ops = 8, .most_ops = 12}, seed).draw();
  };
  const Count count = count_missed(draw, 60, {.least = 9, .most = 11});
  EXPECT_LE(count.num_missed, count.num_sets / 200);
}

/// Every option does what it says, and no other one does as well in everything.
void expect_real(const std::vector<Option>& options, Meter& meter, Fate fate) {
  for (const Option& o : options) {
    const Figures found = meter.measure(o.kept, fate, o.timing.just_in_time);
    EXPECT_TRUE(found.equals(figures_of(o))) << o.kept;
    EXPECT_EQ(o.tail_peak_bytes, meter.tail_peak(o, fate));
    for (const Option& other : options) {
      const bool same_kind = &o != &other && o.timing.just_in_time == other.timing.just_in_time;
      EXPECT_FALSE(same_kind && figures_of(other).as_good_as(figures_of(o)));
    }
  }
}

template <typename Draw>
void expect_all_real(Draw draw, const MenuSize& size) {
  Count count;
  for_each_block(draw, 100, {}, [&](const BlockGraph& block, const ReplayCost& replay_cost) {
    const Menu menu = make_menu(block, replay_cost, size);
    Meter meter(block, replay_cost);
    for (const Fate fate : fates(block)) {
      const std::vector<Option>& options = menu.of(fate.out, fate.in);
      const auto most = static_cast<std::size_t>(size.num_options) + size.num_just_in_time;
      EXPECT_TRUE(!options.empty() && options.size() <= most);
      expect_real(options, meter, fate);
      ++count.num_menus;
      count.num_sets += static_cast<int>(options.size());
    }
  });
  count.print("unreal");
}

TEST(Menu, OptionsDoWhatTheySay) {
  for (const auto& draw : {small_chain, fixed_chain, small_graph, in_place_graph}) {
    expect_all_real(draw, kUncapped);
  }
}

TEST(Menu, OptionsThatAreLeftAfterThinningDoWhatTheySay) {
  for (const auto& draw : {small_chain, fixed_chain, in_place_graph}) {
    expect_all_real(draw, {.num_simulations = 1000, .num_options = 4, .num_just_in_time = 2});
    expect_all_real(draw, {.num_simulations = 10, .num_options = 32, .num_just_in_time = 0});
  }
}

/// The least that an option retains, and what the cheapest of those costs.
std::pair<std::int64_t, double> least_retained(const std::vector<Option>& options, bool linked) {
  std::pair<std::int64_t, double> least{std::numeric_limits<std::int64_t>::max(), 0};
  for (const Option& o : options) {
    if (o.timing.just_in_time || o.linked != linked) continue;
    least = std::min(least, {o.retained_bytes, o.cost});
  }
  return least;
}

// In a long run of dropped boundaries every block should be able to retain nothing.
TEST(Menu, HoldsWhatRetainsLeastHoweverFewItsOptions) {
  const auto draw = [](int seed) {
    return test::RandomChain({.num_blocks = 2, .least_ops = 8, .most_ops = 12}, seed).draw();
  };
  const MenuSize all{.num_simulations = 300, .num_options = 100'000, .num_just_in_time = 0};
  MenuSize few = all;
  few.num_options = 2;
  few.keeps_least = true;
  int num_thinned = 0;
  for_each_block(draw, 100, {}, [&](const BlockGraph& block, const ReplayCost& replay_cost) {
    const Menu whole = make_menu(block, replay_cost, all);
    const Menu thinned = make_menu(block, replay_cost, few);
    for (const Fate fate : fates(block)) {
      const std::vector<Option>& options = whole.of(fate.out, fate.in);
      const std::vector<Option>& left = thinned.of(fate.out, fate.in);
      num_thinned += left.size() < options.size() ? 1 : 0;
      for (const bool linked : {false, true}) {
        EXPECT_EQ(least_retained(left, linked), least_retained(options, linked));
      }
    }
  });
  EXPECT_GT(num_thinned, 100);
}

}  // namespace
}  // namespace gradrecomp::plan
