#include "nominal_seconds.h"

#include <utility>

namespace gradrecomp::plan {
namespace {

// About one core of a server. Plans depend on the ratios alone.
constexpr double kFlopsPerSecond = 1e11;
constexpr double kBytesPerSecond = 1e10;
constexpr double kStartSeconds = 2e-6;
/// An op that joins reads what was made just before it, and writes over that.
constexpr double kShareWhereJoined = 0.5;

}  // namespace

Graph with_nominal_seconds(Graph graph) {
  validate(graph);
  graph.step_seconds = graph.step_flops / kFlopsPerSecond;
  for (Op& op : graph.ops) {
    const double moving = op.bytes_moved / kBytesPerSecond;
    op.replay_seconds = kStartSeconds + op.flops / kFlopsPerSecond + moving;
    op.joined_seconds = op.joins ? kShareWhereJoined * op.replay_seconds : 0;
    op.forward_seconds = op.forward_seconds > 0 ? op.replay_seconds : 0;
    graph.step_seconds += moving;
  }
  return graph;
}

}  // namespace gradrecomp::plan
