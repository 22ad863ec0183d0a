#pragma once

#include <algorithm>
#include <cstdint>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// What a block of so many bytes takes of the heap, as glibc has it; none of 0 bytes.
constexpr std::int64_t block_bytes(std::size_t bytes) {
  constexpr std::int64_t kHeader = 8;
  constexpr std::int64_t kUnit = 16;
  constexpr std::int64_t kLeast = 32;
  if (bytes == 0) return 0;
  const std::int64_t with_header = static_cast<std::int64_t>(bytes) + kHeader;
  return std::max(kLeast, (with_header + kUnit - 1) / kUnit * kUnit);
}

/// The same of the block that the elements of `vector` are in.
template <typename Vector>
std::int64_t block_bytes_of(const Vector& vector) {
  return block_bytes(vector.capacity() * sizeof(typename Vector::value_type));
}

/// The same of the nodes of a deque, as libstdc++ makes them.
template <typename Deque>
std::int64_t deque_bytes_of(const Deque& deque) {
  constexpr std::size_t kNodeBytes = 512;
  constexpr std::size_t kElementBytes = sizeof(typename Deque::value_type);
  constexpr std::size_t kInOne = std::max<std::size_t>(1, kNodeBytes / kElementBytes);
  const auto num_nodes = static_cast<std::int64_t>((deque.size() + kInOne - 1) / kInOne);
  return num_nodes * (block_bytes(kInOne * kElementBytes) + std::int64_t{sizeof(void*)});
}

/// The same of what `nodes`, a map or a set of the standard library, consists of.
template <typename Nodes>
std::int64_t node_bytes_of(const Nodes& nodes) {
  constexpr std::size_t kLinks = 4 * sizeof(void*);  // of a tree; a hash table's node has two
  return static_cast<std::int64_t>(nodes.size()) *
         block_bytes(sizeof(typename Nodes::value_type) + kLinks);
}

}  // namespace gradrecomp::tape
