#pragma once

#include <cstdint>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/proof.h"
#include "plan/op_program/op_program.h"

namespace gradrecomp::plan {

/// Looks for a line under which a program over ops proves more, by prices alone.
///
/// A line that is best for minimum cuts is not for the program, which knows what replays hold.
/// Source: Lagrangian relaxation by exponentiated gradients, as in lower_bound.cpp.
class LineFit {
 public:
  /// Begins with `first`. The program must outlive it, and is left with some line.
  LineFit(OpProgram& program, const Proof& first, std::int64_t plain_peak_bytes);

  /// What is to be proven: a peak above one that is known already, and up to another, of plans that
  /// cost so much at most.
  struct Goal {
    std::int64_t proven_peak_bytes = 0;
    std::int64_t peak_bytes = 0;
    std::int64_t units = 0;
  };

  struct Fitted {
    Proof line = {};
    std::int64_t peak_bytes = 0;  ///< that it proves
  };

  /// The line that proves most, once the program has looked at `most_work` partial plans or more.
  Fitted run(const Goal& goal, std::int64_t most_work);

 private:
  void choose_moments(const Proof& first);
  [[nodiscard]] Proof current() const;
  [[nodiscard]] PlanLimits next_limits(const Goal& goal) const;
  [[nodiscard]] int num_visits_within(const Goal& goal, std::int64_t work);
  [[nodiscard]] OpProgram::Priced least_under(const Proof& line, const Goal& goal);
  void note(std::int64_t peak_bytes, const Proof& line);
  void step(OpProgram::Priced least, std::int64_t units);

  OpProgram& program_;
  double scale_bytes_;
  std::vector<Index> moments_;  ///< events
  /// Of all moments, and of replays.
  struct Weights {
    std::vector<double> logs = {};
    double price = 0;
  };
  Weights weights_;
  /// The last that were good enough to go on from, and the cheapest partial plan under them.
  Weights base_;
  OpProgram::Priced base_least_;
  double rate_ = 20;  ///< of steps
  std::int64_t work_left_ = 0;
  int num_visits_ = 0;  ///< that are told apart
  Fitted best_;
};

}  // namespace gradrecomp::plan
