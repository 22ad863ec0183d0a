#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "expect.h"
#include "gradrecomp/plan/graph_file.h"
#include "gradrecomp/plan/make_plan.h"

using namespace gradrecomp;

namespace {

// A graph that is read can be planned, as `gradrecomp plan --graph` does.
void plan_for(const plan::Graph& graph) {
  constexpr std::size_t kMostOps = 24;  // so that many graphs are tried
  if (graph.ops.size() > kMostOps || graph.values.size() > 4 * kMostOps) return;
  for (const auto cost : {plan::CostModel::flops, plan::CostModel::seconds}) {
    plan::make_plan(graph, {.max_overhead = 0.1, .cost = cost});
  }
  plan::make_plan(graph, {.max_peak_bytes = 1000});
  plan::make_plan(graph, {.max_overhead = 0.1, .host_link = plan::HostLink{100, 50, true}});
}

}  // namespace

/// What is read is written and read again without a change; all else is refused with a message.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto saved = plan::parse_graph(text);
    const auto again = plan::parse_graph(plan::graph_text(saved));
    fuzzing::expect(plan::graph_text(again) == plan::graph_text(saved), "a graph changed its text");
    plan_for(saved.graph);
  } catch (const std::invalid_argument& error) {
    fuzzing::expect_message(error.what());
  }
  return 0;
}
