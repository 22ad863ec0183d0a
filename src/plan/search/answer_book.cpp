#include "answer_book.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>

#include "gradrecomp/plan/policies.h"
#include "plan/graph/choosable_values.h"
#include "plan/policies/policy_sets.h"

// Note [ One answer book ]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// A heuristic search started anew for every budget would now and then find less for a larger one,
// and two that start from different questions would contradict each other. So there is one front,
// and it does not depend on the question. It is written in chapters of rising overhead. A chapter
// (a, b] begins from all that is known up to b and may add what costs more than a and at most b:
// cheaper finds are not added, as questions about less than a have been answered without them.
// So a question only needs the chapters up to the one that holds its answer, and gets what the
// finished book would say:
//   max_overhead = x    the chapters with a < x; the last point of at most x
//   max_peak_bytes = p  chapters until a point of at most p is in one of them; the first such point
// Fixed policies are in the book from the start. A larger budget never gives a worse answer, and
// the two questions agree.
//
// A point of the front may replay some values for nothing. That is found out only for the points
// that are asked for, and without contradictions: what a point is spared leaves its peak as it is
// and its cost above that of the point before it and of its chapter's begin. So a question about x
// also looks at the first point above x.

namespace gradrecomp::plan {
namespace {

constexpr int kBucketsPerBlock = 3;
constexpr int kFewestBuckets = 400;
constexpr int kNumOpenPoints = 12;
constexpr int kBucketsOfRelays = 160;
constexpr int kPassesOfRelays = 2;
constexpr double kRoomForPasses = 1.05;
constexpr int kOpenPointsOfRelays = 24;
constexpr double kHighOverhead = 0.2;
constexpr int kNumCuts = 8;            // of each chapter
constexpr double kPolicyEvents = 3e5;  // as many as the simulations of one policy's numbers take
constexpr double kSpareEvents = 2e6;
constexpr double kSmallGap = 0.02;  // of the plain peak
constexpr double kTinyGap = 0.005;
constexpr double kLargeGap = 0.03;        // above which a chapter is searched in another way, too
constexpr double kEffortOfTwoRounds = 1;  // of a chapter, at least
constexpr int kMostRounds = 7;
constexpr double kWorthTwoRounds = 0.0015;  // of the plain peak
constexpr double kPartWhereSmall = 0.02;
constexpr double kSecondsPerChapter = 0.25;  // on a current processor
constexpr double kMovesPerPair = 15;
constexpr int kManyMoves = 100;  // for each value
constexpr int kFewMoves = 5;     // the same: more of them pay if any do
constexpr int kCopiesEvery = 2;  // moves, where they are many
/// Of targets. The peak of a clean chain is nearly flat, and the excess over it as a whole has to
/// fall; elsewhere a few events stand out, and far below them it does not matter.
constexpr double kTargetOfCleanChains = 0.5;
constexpr double kTargetElsewhere = 0.8;
constexpr std::size_t kFewValues = 200;   // below which they find out alone what pays
constexpr double kManyStartsAbove = 0.3;  // of overhead
constexpr std::size_t kFewBlocks = 32;
constexpr int kMostPasses = 8;

/// Plans up to some overhead, in steps of an eighth or so where budgets are asked for: a search
/// aims at the end of its chapter, and finds little before that. Some chapters first add the
/// chain's plans up to `chain_to`.
struct Chapter {
  double up_to;
  double effort;  ///< of the search; most where budgets are asked for
  double chain_to = 0;
  int max_passes = 0;  ///< of the chain's plans, see ChainSize
};

constexpr std::array kChapters{
    Chapter{0.0, 0.1, 0.05, 1},
    Chapter{0.01, 0.25},
    Chapter{0.02, 0.25},
    Chapter{0.035, 0.5},
    Chapter{0.05, 2},
    Chapter{0.056, 0.4, 0.1, 1},
    Chapter{0.063, 0.4},
    Chapter{0.07, 0.4},
    Chapter{0.08, 0.4},
    Chapter{0.09, 0.4},
    Chapter{0.1, 1},
    Chapter{0.112, 0.4, 0.2, 1},
    Chapter{0.126, 0.4},
    Chapter{0.14, 0.4},
    Chapter{0.16, 0.4},
    Chapter{0.18, 0.4},
    Chapter{0.2, 1},
    Chapter{0.3, 1.5, kMostOnce, 2},
    Chapter{0.34, 1.5},  // what replaying everything once takes, about
    Chapter{0.4, 1},
    Chapter{kMostOnce, 0.5, kMostOnce, kMostPasses},
    Chapter{4.0, 1.5, 4.0, kMostPasses},
};

/// When replays leave values behind: those that autograd saves always, and all others that several
/// ops read while one of them is yet to run. Empty if there are none.
std::vector<Index> with_parents_cached(const Graph& graph) {
  constexpr Index kAlways = 0;
  constexpr Index kWhileWanted = ~0;
  std::vector<int> num_readers(graph.values.size(), 0);
  for (const Op& op : graph.ops) {
    for (const Index v : op.inputs) ++num_readers[v];
  }
  std::vector<Index> cached_from(graph.values.size(), kAlways);
  bool has_some = false;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const Value& x = graph.values[v];
    if (x.saved || !can_choose(x) || num_readers[v] < 2) continue;
    cached_from[v] = kWhileWanted;
    has_some = true;
  }
  return has_some ? cached_from : std::vector<Index>{};
}

}  // namespace

AnswerBook::AnswerBook(const Graph& graph, const ReplayCost& replay_cost,
                       const std::vector<Constraint>& constraints, double effort)
    : graph_(graph),
      replay_cost_(replay_cost),
      constraints_(constraints),
      local_search_(graph, replay_cost, constraints),
      chain_(graph, replay_cost, constraints, Replays::many),
      bound_(graph, replay_cost),
      effort_(effort),
      events_(static_cast<double>(graph.events.size() + graph.ops.size() + 1)),
      parents_cached_(with_parents_cached(graph)) {
  const auto is_free = [&](const Op& op) { return replay_cost.overhead(op) <= 0; };
  replays_may_be_free_ = std::ranges::any_of(graph.ops, is_free);
  plain_peak_bytes_ = local_search_.evaluate(keep_all(graph)).result.peak_bytes;
  add_policies();
}

void AnswerBook::add(Candidate candidate) {
  if (candidate.overhead > above_) front_.add(std::move(candidate));
}

void AnswerBook::add_policies() {
  const int most = static_cast<int>(std::clamp(kPolicyEvents / events_, 8.0, 64.0));
  const auto add_all = [this](std::vector<KeptSet> sets) {
    for (KeptSet& keep : sets) {
      if (!parents_cached_.empty()) add(local_search_.evaluate(keep, parents_cached_));
      add(local_search_.evaluate(std::move(keep)));
    }
  };
  add_all(simple_sets(graph_, most));
  if (effort_ <= 0) return;
  add_all(segment_sets(graph_, most));
  if (!chain_.is_well_cut()) {
    add_all(whole_block_sets(graph_, 4 * most));
    add_all(eviction_sets(graph_, most / 2));
  }
  for (FixedPlan& plan : nested_plans(graph_, most / 2)) {
    add(local_search_.evaluate(std::move(plan.keep), std::move(plan.sweeps)));
  }
}

bool AnswerBook::is_finished() const { return chapter_ == kChapters.size(); }

void AnswerBook::finish() {
  while (!is_finished()) write_next_chapter();
}

void AnswerBook::write_next_chapter() {
  const Chapter& chapter = kChapters.at(chapter_++);
  above_ = written_to_;
  if (chapter.chain_to > 0) add_chain(chapter.chain_to, chapter.max_passes);
  add_cuts(chapter.up_to);
  search(chapter.up_to, chapter.effort);
  written_to_ = chapter.up_to;
  if (is_finished()) written_to_ = std::numeric_limits<double>::infinity();
}

/// The more blocks, the finer the costs that they differ by.
int AnswerBook::num_buckets() const {
  return std::max(kFewestBuckets, kBucketsPerBlock * static_cast<int>(chain_.num_blocks()));
}

/// `wanted`, or more where that takes little time or pays: in a chain of few blocks; in FLOPs, by
/// which many plans cost the same; and where overhead is high.
int AnswerBook::num_passes(int wanted, double max_overhead) const {
  if (effort_ <= 0) return wanted;
  const std::size_t num_blocks = chain_.num_blocks();
  if (num_blocks <= kFewBlocks) return kMostPasses;
  const bool pays = replay_cost_.model() == CostModel::flops || max_overhead >= kHighOverhead;
  return pays && num_blocks <= kManyBlocks ? std::max(wanted, 2) : wanted;
}

void AnswerBook::add_chain(double max_overhead, int max_passes) {
  add_points(chain_.front({.max_cost = max_overhead,
                           .num_buckets = num_buckets(),
                           .num_open_points = kNumOpenPoints,
                           .max_passes = num_passes(max_passes, max_overhead)}));
  const bool in_flops = replay_cost_.model() == CostModel::flops;
  const bool may_pay = max_overhead >= (in_flops ? kHighOverhead : kMostOnce);
  // Where blocks are few, the search makes up for what passes through all of them leave.
  if (effort_ <= 0 || !may_pay || chain_.num_blocks() <= kFewBlocks) return;
  bound_.tighten(max_overhead, kNumCuts);
  if (gap(above_) < kSmallGap) return;
  // What passes count in FLOPs is not in the overhead.
  add_points(chain_.front_with_relays({.max_cost = kRoomForPasses * max_overhead,
                                       .num_buckets = kBucketsOfRelays,
                                       .num_open_points = kOpenPointsOfRelays,
                                       .max_passes = kPassesOfRelays}));
}

void AnswerBook::add_points(const std::vector<ChainPoint>& points) {
  constexpr auto kAnyPeak = std::numeric_limits<std::int64_t>::max();
  for_each_large_step(points, kAnyPeak, [&](const ChainPoint& point) {
    add(local_search_.evaluate(chain_.kept(point), chain_.cached_from(point)));
  });
}

/// The least solutions that the bound finds are plans, too, and at times good ones.
void AnswerBook::add_cuts(double max_overhead) {
  if (effort_ <= 0) return;
  bound_.tighten(max_overhead, kNumCuts);
  const std::vector<std::uint8_t>* last = nullptr;
  for (const std::vector<std::uint8_t>& replayed : bound_.least_solutions()) {
    if (last != nullptr && *last == replayed) continue;
    last = &replayed;
    KeptSet keep(graph_.values.size(), 0);
    for (std::size_t v = 0; v < keep.size(); ++v) {
      const Index op = graph_.values[v].producer;
      keep[v] = op >= 0 && replayed[op] == 0 ? 1 : 0;
    }
    add(local_search_.evaluate(std::move(keep)));
  }
}

double AnswerBook::gap(double max_overhead) const {
  const std::size_t known = front_.last_within(max_overhead);
  if (known == Front::kNone) return 1;
  const std::int64_t peak_bytes = front_.candidates()[known].result.peak_bytes;
  return static_cast<double>(peak_bytes - bound_.peak_bytes(max_overhead)) /
         static_cast<double>(std::max<std::int64_t>(1, plain_peak_bytes_));
}

void AnswerBook::search(double max_overhead, double effort) {
  const std::size_t known = front_.last_within(max_overhead);
  if (known == Front::kNone || (max_overhead <= 0 && !replays_may_be_free_)) return;
  const int moves = static_cast<int>(effort * num_moves(gap(max_overhead)));
  if (moves == 0) return;
  const bool are_many = moves > kManyMoves * static_cast<int>(annealing_->num_open());
  AnnealingGoal goal{max_overhead, bound_.peak_bytes(max_overhead), moves};
  goal.first_target = chain_.is_well_cut() ? kTargetOfCleanChains : kTargetElsewhere;
  if (!are_many) {
    goal.copies_every = annealing_->num_open() < kFewValues ? 0 : 1;
    return search_in_rounds(goal, effort_ * effort < kEffortOfTwoRounds ? 1 : kMostRounds);
  }
  goal.num_moves = moves / 2;
  for (const Candidate& start : starts(max_overhead)) {
    search_from(start, goal);
    goal.copies_every = kCopiesEvery;
    goal.any_time = !chain_.is_well_cut();  // where the chain's program has no such plans
  }
  if (effort < kEffortOfTwoRounds || gap(max_overhead) < kLargeGap) return;
  goal.any_time = true;
  ++goal.seed;
  for (const Candidate& start : starts(max_overhead)) search_from(start, goal);
}

/// From the best plan, again and again while that lowers the peak by much and a gap is left. Times
/// that were good for other plans hold it back: in one round of three, replays leave behind all
/// that autograd saves, and in one what its sweeps list, once that is demanded.
void AnswerBook::search_in_rounds(AnnealingGoal goal, int most_rounds) {
  constexpr int kNumKinds = 3;
  const bool are_few = goal.num_moves < kFewMoves * static_cast<int>(annealing_->num_open());
  std::vector<double> gaps;  // before each round
  for (int round = 0; round < most_rounds; ++round) {
    gaps.push_back(gap(goal.max_overhead));
    const auto won_in_two = [&] { return gaps[gaps.size() - 3] - gaps.back(); };
    const bool pays =
        gaps.back() >= kSmallGap && (round < kNumKinds || won_in_two() >= kWorthTwoRounds);
    if (round > 0 && !pays) return;
    if (round == kNumKinds && are_few) goal.num_moves *= 3;
    Candidate start = front_.candidates()[front_.last_within(goal.max_overhead)];
    if (round % kNumKinds == 1) start = local_search_.evaluate(start.keep);
    if (round % kNumKinds == 2) start.cached_from.clear();
    search_from(std::move(start), goal);
    ++goal.seed;
  }
}

/// The best plan within the budget, and cheaper ones: from those the search has something to spend,
/// and may come by where the best is not. More of them where plans may be dear, as the best such
/// ones are far from each other.
std::vector<Candidate> AnswerBook::starts(double max_overhead) const {
  constexpr std::array kParts{1.0, 0.6, 0.8, 0.4, 0.2};
  const std::size_t num_parts = max_overhead > kManyStartsAbove ? kParts.size() : 2;
  std::vector<std::size_t> positions;
  for (const double part : std::span(kParts).first(num_parts)) {
    const std::size_t position = front_.last_within(part * max_overhead);
    const bool is_new = std::ranges::find(positions, position) == positions.end();
    if (position != Front::kNone && is_new) positions.push_back(position);
  }
  std::vector<Candidate> found;
  for (const std::size_t position : positions) found.push_back(front_.candidates()[position]);
  return found;
}

// `start` is a copy, as what is found goes into the front.
void AnswerBook::search_from(Candidate start, const AnnealingGoal& goal) {
  annealing_->run(start, goal, [this](const IncrementalSimulator& plan, const Outcome& outcome) {
    add_found(plan, outcome);
  });
}

/// For one chapter; none where little can be won.
int AnswerBook::num_moves(double gap) {
  if (gap < kTinyGap || effort_ <= 0) return 0;
  if (!annealing_) annealing_.emplace(graph_, replay_cost_, constraints_);
  const double by_time = kSecondsPerChapter * annealing_->moves_per_second();
  const auto num_open = static_cast<double>(annealing_->num_open());
  const double by_size = kMovesPerPair * num_open * num_open;
  const double part = gap < kSmallGap ? kPartWhereSmall : 1.0;
  return static_cast<int>(effort_ * part * std::min(by_time, by_size));
}

/// Adds a plan of the search that the front misses.
void AnswerBook::add_found(const IncrementalSimulator& plan, const Outcome& outcome) {
  const double overhead = replay_cost_.overhead(outcome.cost);
  if (overhead <= above_) return;
  const std::size_t known = front_.last_within(overhead);
  const std::int64_t step = plain_peak_bytes_ / kLeastStep;
  if (known != Front::kNone &&
      outcome.peak_bytes > front_.candidates()[known].result.peak_bytes - step) {
    return;
  }
  add(local_search_.evaluate(plan.kept(), plan.cached_from()));
}

Candidate AnswerBook::spared(std::size_t position) {
  const std::vector<Candidate>& known = front_.candidates();
  const Candidate& chosen = known[position];
  auto floor = std::pair(kNothing, kNothing);
  if (position > 0) floor = known[position - 1].cost();
  double begin = kNothing;
  for (const Chapter& chapter : kChapters) {
    if (chapter.up_to < chosen.overhead) begin = chapter.up_to;
  }
  const int num_trials = static_cast<int>(std::clamp(kSpareEvents / events_, 10.0, 100.0));
  return local_search_.spare_replays(chosen, {.cost = floor, .overhead = begin}, num_trials);
}

Answer AnswerBook::within_overhead(double max_overhead) {
  while (!is_written_to(max_overhead) && !is_finished()) write_next_chapter();
  // Where a selection forces more, the least that it allows.
  while (front_.candidates().front().overhead > written_to_) write_next_chapter();
  const std::size_t last = front_.last_within(max_overhead);
  const std::size_t next = last == Front::kNone ? 0 : last + 1;
  const std::vector<Candidate>& known = front_.candidates();
  if (next < known.size() && known[next].overhead <= written_to_) {
    Candidate dearer = spared(next);
    const bool feasible = dearer.overhead <= max_overhead;
    if (feasible || last == Front::kNone) return {std::move(dearer), feasible};
  }
  return {spared(last), true};
}

Answer AnswerBook::within_peak(std::int64_t max_peak_bytes) {
  const auto is_known = [&] {
    const std::size_t first = front_.first_within(max_peak_bytes);
    if (first == Front::kNone) return false;
    const Candidate& candidate = front_.candidates()[first];
    return is_written_to(candidate.overhead) || candidate.total <= 0;
  };
  while (!is_known() && !is_finished()) write_next_chapter();
  const std::size_t first = front_.first_within(max_peak_bytes);
  if (first == Front::kNone) return {spared(front_.candidates().size() - 1), false};
  return {spared(first), true};
}

}  // namespace gradrecomp::plan
