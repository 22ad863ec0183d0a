#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "gradrecomp/version.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

/// Which op sequences backward passes ask for something, by signature.
class AskedSequences {
 public:
  /// Notes that a pass asks a step of that sequence.
  void asked(std::uint64_t signature);
  /// Notes that a step of it is gone and was never asked. Returns whether that has come often
  /// enough, and no step of it has ever been asked, to expect the same of the next.
  bool never_asked(std::uint64_t signature);

 private:
  std::unordered_map<std::uint64_t, int> never_asked_;  // times
  std::unordered_set<std::uint64_t> asked_;
};

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
