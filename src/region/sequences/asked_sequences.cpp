#include "region/sequences/asked_sequences.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {
namespace {
constexpr std::size_t kMostSignatures = 4096;
}  // namespace

void AskedSequences::asked(std::uint64_t signature) {
  if (asked_.size() == kMostSignatures) asked_.clear();
  asked_.insert(signature);
}

bool AskedSequences::never_asked(std::uint64_t signature) {
  if (asked_.contains(signature)) return false;
  if (never_asked_.size() == kMostSignatures) never_asked_.clear();
  return ++never_asked_[signature] >= 2;
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
