#include "chain.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "partial_plan.h"
#include "plan/graph/pareto.h"
#include "pruning_bounds.h"

// Note [ Chains ]
// ~~~~~~~~~~~~~~~
// Blocks are put together from the last to the first, the order of backward. A partial plan for the
// blocks from k on has a cost and a peak above what the blocks before k retain. Where the boundary
// before k is kept, that is all (`closed`). Where it is dropped (`open`), a replay in some later
// block reaches across k and further, and makes what the run of dropped boundaries sweeps, all at
// once; from then on the blocks before k add to the peak what that replay makes of them too. So an
// open partial plan has two peaks: until that replay (rest) and from it on (run). With R, S, A, B
// the retained and swept bytes and the early and late peak of an option of block k,
//   kept    -> kept      rest' = max(rest + R, A)
//   kept    -> dropped   rest' = max(rest + R, A),           run' = B
//   dropped -> kept      rest' = max(rest + R, run + R + S, A, B)
//   dropped -> dropped   rest' = rest + R,                   run' = max(run + R + S, A)  if linked
//                        rest' = max(rest + R, run + R + S, A),  run' = B                if not
// Here the first replay that reaches across leaves behind all it makes. In nested plans several do:
// that of the next block is the last, and with each block that goes on with the run there is one
// more. The first p of them may run through a block (passes, each at the cost of its boundary
// alone) and the next one leave its values behind, when fewer other bytes are live; those after it
// find them there. An open plan then has a peak since_i from each of these replays on, run =
// since_0, and
//   since_i' = max(since_i + R, since_p + R + S, A) for i <= p,  since_(p+1)' = T
//   cost' = cost + c + p * (cost of a pass)
// with T the tail peak of the block: from its own reach on.
// Where the boundary of block k is relayed (Note [ Relays ] in option_meter.cpp), all n replays
// that run across its end run through to the blocks before, if they need to at all. The first
// leaves S behind, the last, which is that of the boundary's own demand, the boundary's bytes D:
//   since_i' = max(since_i + R + S, since_(n-1) + R + S + D, A) for i < n
//   cost' = cost + c + (n - 2) * (cost of a relay)
// A block behind a relayed boundary has as many reaches of its own as its backward asks for it.
// Where two values cross a cut and one of them is kept, the plan is open too, and goes on only with
// options that agree on which.
// Exact but for costs that fall into one bucket, of which the lowest peak survives, for the number
// of open plans a bucket holds, and for since_1 and later, which do not tell open plans apart.

namespace gradrecomp::plan {
namespace {

constexpr int kCoarser = 4;
constexpr int kFewestBuckets = 100;
constexpr int kFewestOpenPoints = 3;

/// How a partial plan came about: the choice for one block and the plan for those after it.
struct Link {
  BlockChoice choice;
  Index next = -1;
};

/// The program for up to `kReaches` replays that run across one cut.
template <std::size_t kReaches>
class ChainProgram {
 public:
  ChainProgram(std::span<const Menu* const> menus, const ChainSize& size,
               const PruningBounds* pruning)
      : menus_(menus),
        size_(size),
        pruning_(pruning),
        buckets_per_cost_((size.num_buckets - 1) / size.max_cost) {
    size_.max_passes = std::min(size_.max_passes, static_cast<int>(kReaches) - 1);
  }

  std::vector<ChainPoint> solve() {
    closed_.assign(1, {.rest_bytes = 0});
    for (std::size_t k = menus_.size(); k-- > 0;) prepend(k);
    std::vector<ChainPoint> points;
    for (const Partial& partial : closed_) points.push_back(unwind(partial));
    return points;
  }

 private:
  using Partial = PartialPlan<kReaches>;
  using Cells = std::vector<std::vector<Partial>>;  ///< per bucket and number of reaches

  void prepend(std::size_t k) {
    const Menu& menu = *menus_[k];
    block_ = k;
    next_closed_.assign(size_.num_buckets, {});
    for (Cells& cells : next_open_) {
      cells.resize(static_cast<std::size_t>(size_.num_buckets) * num_lists());
      for (std::vector<Partial>& cell : cells) cell.clear();
    }
    for (const CutFate out : kCutFates) {
      for (const CutFate in : kCutFates) {
        for (const Option& option : menu.of(out, in)) extend({&option, out, in, 0});
        if (out == CutFate::kept || out == CutFate::relayed) continue;
        for (int passes = 1; passes <= size_.max_passes; ++passes) {
          for (const Option& option : menu.of(out, in)) extend({&option, out, in, passes});
        }
      }
    }
    closed_.clear();
    for (const Partial& partial : next_closed_) {
      if (partial.rest_bytes < (closed_.empty() ? kNoPeak : closed_.back().rest_bytes)) {
        closed_.push_back(partial);
      }
    }
    for (Partial& partial : closed_) partial.step = commit(partial.step);
    for (std::size_t fate = 0; fate < open_.size(); ++fate) {
      open_[fate] = pruned(next_open_[fate]);
      for (Partial& partial : open_[fate]) partial.step = commit(partial.step);
    }
    tried_.clear();
  }

  void extend(const BlockChoice& choice) {
    if (choice.option->timing.just_in_time && size_.max_passes == 0) return;
    const bool is_closed = choice.out == CutFate::kept;
    const std::vector<Partial>& after = is_closed ? closed_ : open_[position(choice.out)];
    for (const Partial& partial : after) {
      if (!is_possible(partial, choice, size_.max_passes)) continue;
      const Partial made = joined(partial, choice, size_.max_passes);
      if (made.cost > size_.max_cost || is_hopeless(made)) continue;
      add(made, choice, partial.step);
    }
  }

  [[nodiscard]] bool is_hopeless(const Partial& made) const {
    if (pruning_ == nullptr) return false;
    return std::max(made.rest_bytes, made.run_bytes()) >= pruning_->below(block_, made.cost);
  }

  void add(Partial made, const BlockChoice& choice, Index next) {
    const auto bucket = static_cast<std::size_t>(made.cost * buckets_per_cost_);
    const bool closed = choice.in == CutFate::kept;
    if (closed) {
      Partial& cell = next_closed_[bucket];
      const bool better = made.rest_bytes < cell.rest_bytes ||
                          (made.rest_bytes == cell.rest_bytes && made.cost < cell.cost);
      if (!better) return;
      made.step = note(choice, next);
      cell = made;
      return;
    }
    Cells& cells = next_open_[position(choice.in)];
    std::vector<Partial>& cell = cells[bucket * num_lists() + list_of(made)];
    if (covered(cell, made)) return;
    made.step = note(choice, next);
    insert(cell, made);
  }

  /// One for each number of reaches that are told apart, and one for more.
  [[nodiscard]] std::size_t num_lists() const {
    return static_cast<std::size_t>(size_.max_passes) + 3;
  }
  [[nodiscard]] std::size_t list_of(const Partial& partial) const {
    return std::min(static_cast<std::size_t>(partial.num_reaches), num_lists() - 1);
  }

  Index note(const BlockChoice& choice, Index next) {
    tried_.push_back({choice, next});
    return static_cast<Index>(tried_.size()) - 1;
  }

  Index commit(Index tried) {
    steps_.push_back(tried_[tried]);
    return static_cast<Index>(steps_.size()) - 1;
  }

  /// The open plans that no cheaper one matches in both peaks, by rising cost.
  [[nodiscard]] std::vector<Partial> pruned(Cells& cells) const {
    std::vector<Partial> left;
    // Per number of passes: those taken so far, by rising rest and falling run.
    std::vector<std::vector<Partial>> lowest(num_lists());
    for (std::vector<Partial>& cell : cells) {
      thin(cell);
      for (const Partial& partial : cell) {
        bool fewer = false;
        const std::size_t list = list_of(partial);
        for (std::size_t p = 0; p <= list && !fewer; ++p) fewer = covered(lowest[p], partial);
        if (fewer) continue;
        insert(lowest[list], partial);
        left.push_back(partial);
      }
    }
    return left;
  }

  /// Whether one of `lowest` has neither peak higher; they have rising rest and falling run.
  static bool covered(const std::vector<Partial>& lowest, const Partial& partial) {
    // Searched without branches: which way it goes, no processor can tell ahead.
    const Partial* at = lowest.data();
    std::size_t left = lowest.size();
    if (left == 0 || at->rest_bytes > partial.rest_bytes) return false;
    while (left > 1) {
      const std::size_t half = left / 2;
      at += at[half].rest_bytes <= partial.rest_bytes ? half : 0;
      left -= half;
    }
    return at->run_bytes() <= partial.run_bytes();
  }

  /// Adds a plan that none covers, in place of those that it covers.
  static void insert(std::vector<Partial>& lowest, const Partial& partial) {
    const auto begin =
        std::ranges::lower_bound(lowest, partial.rest_bytes, {}, &Partial::rest_bytes);
    auto end = begin;
    while (end != lowest.end() && end->run_bytes() >= partial.run_bytes()) ++end;
    if (begin == end) {
      lowest.insert(begin, partial);
    } else {
      *begin = partial;
      lowest.erase(begin + 1, end);
    }
  }

  /// Takes from a bucket, again and again, the plan that its two neighbours replace best.
  void thin(std::vector<Partial>& cell) const {
    const auto most = static_cast<std::size_t>(size_.num_open_points);
    if (cell.size() <= most) return;
    while (cell.size() > most) {
      std::size_t least = 1;
      for (std::size_t i = 2; i + 1 < cell.size(); ++i) {
        if (missed(cell, i) < missed(cell, least)) least = i;
      }
      cell.erase(cell.begin() + static_cast<std::ptrdiff_t>(least));
    }
  }

  /// The bytes that the plans after `i` would pay for doing without it.
  static std::int64_t missed(const std::vector<Partial>& cell, std::size_t i) {
    return std::min(cell[i + 1].rest_bytes - cell[i].rest_bytes,
                    cell[i - 1].run_bytes() - cell[i].run_bytes());
  }

  [[nodiscard]] ChainPoint unwind(const Partial& partial) const {
    ChainPoint point{{}, partial.rest_bytes, partial.cost};
    for (Index step = partial.step; step >= 0; step = steps_[step].next) {
      point.choices.push_back(steps_[step].choice);
    }
    return point;
  }

  std::span<const Menu* const> menus_;
  ChainSize size_;
  const PruningBounds* pruning_;
  double buckets_per_cost_;
  std::size_t block_ = 0;
  std::vector<Partial> closed_;
  PerFate<std::vector<Partial>> open_;
  std::vector<Partial> next_closed_;
  PerFate<Cells> next_open_;
  std::vector<Link> tried_;
  std::vector<Link> steps_;
};

/// With no more room for replays in its partial plans than they need: most of the time goes there.
std::vector<ChainPoint> solve(std::span<const Menu* const> menus, const ChainSize& size,
                              const PruningBounds* pruning) {
  if (size.max_passes == 0) return ChainProgram<1>(menus, size, pruning).solve();
  if (size.max_passes == 1) return ChainProgram<2>(menus, size, pruning).solve();
  if (size.max_passes <= 2) return ChainProgram<3>(menus, size, pruning).solve();
  return ChainProgram<10>(menus, size, pruning).solve();
}

}  // namespace

std::vector<ChainPoint> merged(std::vector<ChainPoint> points,
                               const std::vector<ChainPoint>& others) {
  points.insert(points.end(), others.begin(), others.end());
  std::ranges::stable_sort(points, {},
                           [](const ChainPoint& p) { return std::pair(p.cost, p.peak_bytes); });
  drop_dominated(points, [](const ChainPoint& point) { return point.peak_bytes; });
  return points;
}

std::vector<ChainPoint> solve_chain(std::span<const Menu* const> menus, const ChainSize& size) {
  ChainSize easier = size;
  easier.num_buckets = size.num_buckets / kCoarser;
  easier.num_open_points = std::max(kFewestOpenPoints, size.num_open_points / kCoarser);
  if (easier.num_buckets < kFewestBuckets) {
    if (size.max_passes == 0) return solve(menus, size, nullptr);
    easier = size;
    easier.max_passes = 0;
  }
  const std::vector<ChainPoint> known = solve_chain(menus, easier);
  const PruningBounds pruning(menus, known, size);
  return merged(solve(menus, size, &pruning), known);
}

}  // namespace gradrecomp::plan
