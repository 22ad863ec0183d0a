#include "region/sequences/sequence_order.h"

#include <algorithm>

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {
namespace {

constexpr std::size_t kMostPasts = 16384;
constexpr int kMostWeight = 8;
constexpr double kMemory = 0.95;  // of scores, from one sequence to the next

std::uint64_t mix(std::uint64_t hash, std::uint64_t item) {
  hash ^= item + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdu;
}

}  // namespace

SequenceOrder::Pasts SequenceOrder::pasts() const {
  Pasts pasts{};
  for (std::size_t length = 1; length <= last_.size(); ++length) {
    pasts[length] = mix(pasts[length - 1], last_[length - 1]);
  }
  return pasts;
}

void SequenceOrder::came(std::uint64_t signature) {
  if (followers_.size() > kMostPasts) followers_.clear();
  const Pasts hashes = pasts();
  for (std::size_t length = 0; length <= last_.size(); ++length) {
    Follower& follower = followers_[hashes[length]];
    const bool is_right = follower.signature == signature;
    scores_[length] = kMemory * scores_[length] + (is_right ? 1 - kMemory : 0);
    follower.weight = is_right ? std::min(follower.weight + 1, kMostWeight) : follower.weight - 1;
    if (follower.weight < 0) follower = {signature, 0};
  }
  last_.push_front(signature);
  if (last_.size() > kLongestPast) last_.pop_back();
}

std::optional<std::uint64_t> SequenceOrder::next() const {
  std::optional<std::uint64_t> best;
  double best_score = -1;
  const Pasts hashes = pasts();
  for (std::size_t length = 0; length <= last_.size(); ++length) {
    const auto follower = followers_.find(hashes[length]);
    if (follower == followers_.end() || scores_[length] < best_score) continue;
    best = follower->second.signature;
    best_score = scores_[length];
  }
  return best;
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
