#pragma once

#include <cstdint>
#include <vector>

#include "courses.h"
#include "dominance.h"
#include "foresight.h"
#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/proof.h"
#include "open_step.h"
#include "outlook.h"
#include "plan/simulator/compiled_graph.h"
#include "plan/simulator/replay_cost.h"
#include "prices.h"
#include "trace.h"
#include "tracked_step.h"

namespace gradrecomp::plan {

/// Proves that no plan keeps within limits, by a program over the ops of a step.
///
/// See Note [ Programs over ops ] in op_program.cpp.
/// Threads:  one object serves one thread at a time.
class OpProgram {
 public:
  struct Answer {
    bool exists = true;      ///< a plan may; false: none does
    std::int64_t units = 0;  ///< if so, no such plan costs less
    bool gave_up = false;    ///< nothing is known
    std::int64_t work = 0;   ///< partial plans looked at
  };

  /// What prices alone tell.
  struct Priced {
    bool exists = true;     ///< as in an answer
    bool gave_up = false;   ///< nothing is known
    std::int64_t work = 0;  ///< partial plans looked at
    std::int64_t least_peak_bytes =
        0;                   ///< no plan that costs no more than the limit has a lower peak
    std::int64_t units = 0;  ///< about what the cheapest partial plan costs
    std::vector<std::int64_t> loads = {};  ///< and holds, per event of the graph
  };

  /// How much may be done for an answer.
  struct Effort {
    std::int64_t most_work = 0;  ///< partial plans that are looked at; beyond them it gives up
    int num_visits = 2;          ///< told apart: up to kMostVisits
    Rivals rivals = Rivals::of_fewer_visits_too;  ///< by prices
  };

  /// `line` says which partial plans to give up: weights and a price of a good lower bound. The
  /// answers hold for any.
  OpProgram(const Graph& graph, const ReplayCost& replay_cost, const Proof& line);

  Answer find(const PlanLimits& limits, const Effort& effort);
  /// The same without loads: quicker, and it proves less.
  Priced find_priced(const PlanLimits& limits, const Effort& effort);

  /// Goes on with another line.
  void follow(const Proof& line);

  /// Per event of the graph, live bytes under every plan.
  [[nodiscard]] const std::vector<std::int64_t>& base_bytes() const { return step_.base_bytes(); }

 private:
  using Steps = std::vector<OpenSteps>;

  /// What a run over the ops is for.
  enum class Aim {
    loads,    ///< the least cost, by loads
    prices,   ///< the cheapest partial plan by prices, and what it holds
    outlook,  ///< what the ops in front add by prices
  };

  /// The visits in which an op runs.
  struct Runs {
    Visits once = 0;
    Visits again = 0;  ///< for the second time
  };

  void begin(const PlanLimits& limits, const Effort& effort);
  Steps pass_ops(Aim aim);
  [[nodiscard]] bool compares_loads() const { return aim_ == Aim::loads; }
  [[nodiscard]] bool is_over() const {
    return has_given_up() || (aim_ == Aim::outlook && outlook_.is_crowded());
  }
  [[nodiscard]] Int128 most_before(Index op) const;
  [[nodiscard]] Answer answer_of(const Steps& all) const;
  [[nodiscard]] bool has_given_up() const { return work_left_ < 0; }
  void note_work(const OpenSteps& steps);
  [[nodiscard]] bool is_within(const Course& course) const;
  [[nodiscard]] bool keep_within(OpenSteps& steps);
  template <typename Adds, typename Change>
  [[nodiscard]] OpenSteps changed(const OpenSteps& steps, const Adds& adds, const Change& change);
  [[nodiscard]] bool may_be_kept(const TrackedValue& x) const;
  [[nodiscard]] bool may_be_left(const TrackedValue& x) const;
  [[nodiscard]] bool is_made_if_left(const TrackedValue& x) const;
  void enter(Index op, Steps& all);
  void enter_value(Index tracked, Steps& all);
  void pass_moments(Index op, Steps& all);
  [[nodiscard]] std::int64_t load(const Moment& moment, const OpenStep& open) const;
  [[nodiscard]] bool keep_hopeful(OpenSteps& steps, const Foresight::View& ahead) const;
  void visit(const Moment& moment, Index op, OpenSteps steps, Steps& found);
  void choose_left_behind(const Moment& moment, Index op, Steps& branches);
  [[nodiscard]] bool run(Index op, OpenSteps& steps);
  void ask_inputs(Index op, const Runs& runs, OpenStep& open) const;
  void note_replays(Index op, const Runs& runs, OpenSteps& steps) const;
  void leave(Index op, Steps& all);
  void drop_needless_of(Steps& all);
  [[nodiscard]] bool close_visits(OpenSteps& steps) const;
  void prune(Index op, OpenSteps& steps, const Foresight::View& ahead);
  void hold(Course& course, const TrackedValue& x, Index from, Index to);
  void forget_unheld(Steps& all);

  CompiledGraph graph_;
  TrackedStep step_;
  std::vector<std::int64_t> costs_;  ///< per op
  Prices prices_;
  Foresight foresight_;
  PlanLimits limits_;
  int num_visits_ = 0;  ///< told apart
  Rivals rivals_ = Rivals::of_fewer_visits_too;
  Aim aim_ = Aim::loads;
  Outlook outlook_;
  Trace trace_;
  std::vector<Index> open_values_;  ///< tracked values between the ops in front and those behind
  std::vector<Index> place_;        ///< per tracked value: in open_values_, or -1
  Int128 most_of_all_ = 0;          ///< what plans within the limits come to; see Prices
  Int128 most_ = 0;                 ///< that a course may have come to; see Prices
  std::int64_t work_left_ = 0;      ///< in partial plans looked at
};

}  // namespace gradrecomp::plan
