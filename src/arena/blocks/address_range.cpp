#include "arena/blocks/address_range.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>

namespace gradrecomp::arena {
namespace {

// Opened at a time: each opening is a call to the system, and each counts as memory promised.
constexpr std::size_t kStep = std::size_t{32} << 20;

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::size_t mapped_bytes() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * page_bytes();
}

/// Of the addresses that a limit leaves: stacks of threads and all that is not in the range need
/// theirs, too.
std::size_t most_bytes() {
  constexpr std::size_t kShare = 4;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<std::size_t>::max();
  }
  const std::size_t mapped = mapped_bytes();
  return mapped < limit.rlim_cur ? (limit.rlim_cur - mapped) / kShare : 0;
}

std::byte* reserve(std::size_t bytes) {
  void* begin = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return begin == MAP_FAILED ? nullptr : static_cast<std::byte*>(begin);
}

}  // namespace

AddressRange::AddressRange(std::size_t bytes)
    : size_(std::min(bytes, most_bytes()) / kStep * kStep) {
  while (size_ > 0 && (begin_ = reserve(size_)) == nullptr) size_ = size_ / 2 / kStep * kStep;
}

AddressRange::~AddressRange() {
  if (begin_ != nullptr) munmap(begin_, size_);
}

bool AddressRange::contains(const void* pointer) const {
  const auto distance =
      reinterpret_cast<std::uintptr_t>(pointer) - reinterpret_cast<std::uintptr_t>(begin_);
  return distance < size_;
}

bool AddressRange::open(std::size_t bytes) {
  if (bytes <= open_bytes_) return true;
  if (bytes > size_) return false;
  const std::size_t wanted = rounded_up(bytes, kStep);
  if (mprotect(begin_ + open_bytes_, wanted - open_bytes_, PROT_READ | PROT_WRITE) != 0) {
    return false;
  }
  open_bytes_ = wanted;
  return true;
}

void AddressRange::give_back(std::size_t offset, std::size_t bytes) {
  const std::size_t first = rounded_up(offset, page_bytes());
  const std::size_t last = std::min(offset + bytes, open_bytes_) / page_bytes() * page_bytes();
  if (first < last) madvise(begin_ + first, last - first, MADV_DONTNEED);
}

}  // namespace gradrecomp::arena
