#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gradrecomp/plan/graph.h"

namespace gradrecomp::plan {

/// What partial plans hold and when, as lists of which many share an end.
class Trace {
 public:
  using List = std::int32_t;
  static constexpr List kEmpty = -1;

  /// `rest`, and before it `bytes` after event `from` and up to event `to`.
  List add(List rest, std::int64_t bytes, Index from, Index to);

  /// Adds what a list holds to the loads of all events.
  void add_to(std::vector<std::int64_t>& loads, List list) const;

  /// Whether it is time to forget what no list leads to any more.
  [[nodiscard]] bool is_crowded() const { return held_.size() > kFew + 4 * num_wanted_; }
  /// Keeps what `lists` lead to, and renames them.
  void keep_only(std::span<List* const> lists);
  void clear();

 private:
  static constexpr std::size_t kFew = 100'000;

  struct Held {
    std::int64_t bytes;
    Index from;
    Index to;
    List rest;  ///< older, and so of a lower number
  };

  std::vector<Held> held_;
  std::size_t num_wanted_ = 0;  ///< after the last cleaning
};

}  // namespace gradrecomp::plan
