#pragma once

#include <cstdint>
#include <vector>

#include "bundle.h"
#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/proof.h"
#include "plan/op_program/op_program.h"

namespace gradrecomp::plan {

/// What a run of the program by prices may take: what a line proves, others must be able to check.
inline constexpr std::int64_t kMostPricedWork = 400'000'000;

/// Looks for a line under which a program over ops proves more, by prices alone.
///
/// A line that is best for minimum cuts is not for the program, which knows what replays hold.
/// Source: Lagrangian relaxation, by a bundle of planes; see Note [ Bundles ] in bundle.cpp.
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

  /// The line that proves most, once the program has looked at `work` partial plans or more in all
  /// runs. Goes on from the last run.
  const Fitted& run(const Goal& goal, std::int64_t work);

 private:
  void choose_moments(const Proof& first);
  [[nodiscard]] Proof current() const;
  [[nodiscard]] std::int64_t first_rise() const;
  [[nodiscard]] bool is_done(const Goal& goal, std::int64_t work) const;
  bool tell_more_apart_where_idle(const OpProgram::Priced& least);
  [[nodiscard]] bool tell_fewer_apart();
  [[nodiscard]] bool step_less_far();
  void move_to(Bundle::Step next);
  [[nodiscard]] int num_visits_within(const Goal& goal, std::int64_t work);
  [[nodiscard]] OpProgram::Priced least_under(const Proof& line, const Goal& goal,
                                              const OpProgram::Effort& effort);
  void sharpen(const Goal& goal);
  void note(std::int64_t peak_bytes, const Proof& line);
  void scale_price(std::int64_t units);
  void step(const Proof& line, const OpProgram::Priced& least, std::int64_t units);
  void add_plane(const Proof& line, const OpProgram::Priced& least, std::int64_t units);

  OpProgram& program_;
  double scale_bytes_;
  std::vector<Index> moments_;  ///< events
  double price_scale_ = 1;
  Bundle bundle_;
  Bundle::Point point_;    ///< of the current line
  Bundle::Point center_;   ///< the last that was good enough to go on from
  Bundle::Point highest_;  ///< where the cheapest partial plan holds most
  double center_value_ = 0;
  double promised_ = 1;    ///< of the current line
  double reach_;           ///< of steps
  std::int64_t work_ = 0;  ///< so far
  int num_lines_ = 0;
  int num_visits_ = 0;  ///< that are told apart
  int most_visits_ = kMostVisits;
  int num_idle_ = 0;   ///< lines since the cheapest partial plan has held more than ever before
  int num_level_ = 0;  ///< those of which next to nothing was promised
  std::int64_t highest_least_bytes_ = 0;
  std::int64_t last_bytes_ = 0;  ///< least peak under the last line
  std::int64_t last_units_ = 0;  ///< and what the cheapest partial plan costs
  Fitted best_;
};

}  // namespace gradrecomp::plan
