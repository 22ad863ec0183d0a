#include "gradrecomp/plan/graph.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/expect_error.h"
#include "support/plan/model_graphs.h"
#include "support/plan/step_builder.h"

namespace gradrecomp::plan {
namespace {

using test::expect_invalid;

Graph small_chain() { return test::chain_graph({.bytes = {4, 8}, .seconds = {1, 2}}); }

/// validate() of the small chain, changed by `change`, says `part`.
template <class Change>
void expect_fault(const Change& change, const std::string& part) {
  Graph graph = small_chain();
  change(graph);
  expect_invalid([&] { validate(graph); }, part);
}

TEST(Validate, AcceptsAChainAndAModel) {
  EXPECT_NO_THROW(validate(small_chain()));
  EXPECT_NO_THROW(validate(test::resnet_graph({1, 1}, 1)));
  EXPECT_NO_THROW(validate(test::bert_graph(1, 1, 8)));
}

TEST(Validate, NamesTheValueAtFault) {
  expect_fault([](Graph& g) { g.values[1].bytes = -1; }, "bytes of value 1 is -1");
  expect_fault([](Graph& g) { g.values[0].bytes = 3; }, "bytes of value 0 is 3");
  expect_fault([](Graph& g) { g.values[1].producer = 1; }, "producer of value 1 is 1");
  expect_fault([](Graph& g) { g.values[2].overwrites = 1; }, "overwrites of value 2 is 1");
  expect_fault([](Graph& g) { g.values[1].overwritten_by = 0; }, "overwritten_by of value 1 is 0");
  expect_fault([](Graph& g) { g.values[2].overwritten_by = 1; }, "overwritten_by of value 2 is 1");
}

TEST(Validate, LetsAPartOverwriteWhatItsCallHasRead) {
  test::StepBuilder step;
  const Index memory = step.run({.fresh_bytes = {8}}).front();
  const Index packed = step.run({.reads = {memory}, .fresh_bytes = {1}}).front();
  const Index mask = step.run({.reads = {packed}, .takes_over = memory}).front();
  step.save(mask);
  const Graph graph = step.finish();
  EXPECT_NO_THROW(validate(graph));
  const auto expect_refused = [&](const auto& change) {
    Graph changed = graph;
    change(changed);
    expect_invalid([&] { validate(changed); }, "overwrites of value 2 is 0");
  };
  expect_refused([](Graph& g) { g.ops[2].is_part = false; });
  expect_refused([](Graph& g) { g.ops[1].inputs = {}; });
}

TEST(Validate, NamesTheOpAtFault) {
  expect_fault([](Graph& g) { g.ops[1].inputs = {2}; }, "input of op 1 (link) is 2");
  expect_fault([](Graph& g) { g.ops[1].inputs = {1, 1}; }, "must be listed once");
  expect_fault([](Graph& g) { g.ops[1].stage = 7; }, "stage of op 1 (link) is 7");
  expect_fault([](Graph& g) { g.ops[0].flops = -2; }, "flops of op 0 (link) is -2");
  expect_fault([](Graph& g) { g.ops[0].replay_seconds = std::numeric_limits<double>::quiet_NaN(); },
               "replay_seconds of op 0 (link) is nan, but must be finite");
}

TEST(Validate, NamesTheOpThatCannotJoin) {
  expect_fault([](Graph& g) { g.ops[0].joins = true; },
               "joins of op 0 (link) is true, but must be false");
  expect_fault([](Graph& g) { g.ops[1].joined_seconds = 1; },
               "joined_seconds of op 1 (link) is 1, but must be 0");
  const auto joining = [](double seconds) {
    return [seconds](Graph& g) {
      g.ops[1].joins = true;
      g.ops[1].joined_seconds = seconds;
    };
  };
  expect_fault(joining(3), "joined_seconds of op 1 (link) is 3, but must be at most");
  Graph graph = small_chain();
  joining(2)(graph);
  EXPECT_NO_THROW(validate(graph));
}

TEST(Validate, NamesTheValueThatIsLostToAReplay) {
  test::StepBuilder step;
  const Index x = step.external();
  const Index made = step.run({.name = "make", .reads = {x}, .fresh_bytes = {4}}).front();
  step.save(step.run({.name = "write", .overwrites = {made}}).front());
  Graph graph = step.finish();
  EXPECT_NO_THROW(validate(graph));
  graph.values[1].must_keep = true;
  expect_invalid([&] { validate(graph); },
                 "must_keep of value 1 is true, but must be false, or snapshot be true, as it is "
                 "overwritten and a replay of op 1 (write) reads it");
  graph.values[1].snapshot = true;
  EXPECT_NO_THROW(validate(graph));
}

TEST(Validate, NamesBytesBeyondAllBounds) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  expect_fault([](Graph& g) { g.values[1].bytes = kMost; },
               "bytes of value 1 is 9223372036854775807");
  expect_fault([](Graph& g) { g.ops[1].transient_bytes = kMost; },
               "transient_bytes of op 1 (link)");
  expect_fault(
      [](Graph& g) {
        g.events.push_back({EventKind::outside, -1, -kMost, 0});
      },
      "sum up to 2^56 at most");
}

TEST(Validate, NamesCostsBeyondAllBounds) {
  expect_fault(
      [](Graph& g) {
        for (Op& op : g.ops) op.flops = 0.6e200;
      },
      "sum up to 1e200 at most");
}

TEST(Validate, NamesTheEventAtFault) {
  expect_fault(
      [](Graph& g) {
        g.events.insert(g.events.begin(), {EventKind::death, g.ops.back().outputs.front()});
      },
      "death of event 0 is");
  expect_fault([](Graph& g) { g.events.front().id = 1; }, "op of event 0 is 1");
  expect_fault(
      [](Graph& g) {
        g.events.push_back({EventKind::demand, 9});
      },
      "is 9, but must be an");
  expect_fault(
      [](Graph& g) {
        g.events.push_back({EventKind::release, 1});
      },
      "one that has a handle");
  expect_fault([](Graph& g) { g.events.push_back({EventKind::save, 1}); }, "before the seal event");
  expect_fault([](Graph& g) { g.events.push_back({EventKind::seal}); }, "num seal events");
  expect_fault(
      [](Graph& g) {
        g.events.insert(g.events.begin(), {EventKind::demand, 1});
      },
      "after the seal event");
  expect_fault([](Graph& g) { g.events.back().kind = static_cast<EventKind>(9); }, "kind of event");
  expect_fault([](Graph& g) { g.events.clear(); }, "num run_op events is 0");
}

}  // namespace
}  // namespace gradrecomp::plan
