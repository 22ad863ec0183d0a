#include "tape/aten/bytes.h"

#include <ATen/ATen.h>

#include <cstring>

#include "tape/aten/below_recording.h"
#include "tape/aten/geometry.h"

namespace gradrecomp::tape {
namespace {

at::Tensor numbers_of(const c10::Storage& storage, at::ScalarType type, std::int64_t first,
                      std::int64_t count) {
  auto numbers = at::empty({0}, at::TensorOptions().dtype(type).device(storage.device()));
  return numbers.set_(storage, first, {count}, {1});
}

}  // namespace

at::Tensor as_bytes(const c10::Storage& storage) {
  return numbers_of(storage, at::kByte, 0, static_cast<std::int64_t>(storage.nbytes()));
}

c10::Storage clone(const c10::Storage& storage) {
  const BelowRecording below;
  const std::int64_t size = bytes_in(storage);
  auto copy = at::empty({size}, at::TensorOptions().dtype(at::kByte).device(storage.device()));
  if (size > 0) copy.copy_(as_bytes(storage));
  return copy.storage();
}

bool fills_its_storage(const at::Tensor& tensor) {
  return Geometry(tensor).fills(static_cast<std::int64_t>(tensor.storage().nbytes()));
}

bool same_bits(const c10::Storage& a, const c10::Storage& b) {
  if (bytes_in(a) != bytes_in(b)) return false;
  if (bytes_in(a) == 0) return true;
  if (a.device().is_cpu()) return std::memcmp(a.data(), b.data(), a.nbytes()) == 0;
  // Compared by words, as the device takes a flag for each number that it compares.
  const auto num_words = static_cast<std::int64_t>(a.nbytes() / sizeof(std::int64_t));
  const auto words_end = num_words * static_cast<std::int64_t>(sizeof(std::int64_t));
  const auto size = static_cast<std::int64_t>(a.nbytes());
  return at::equal(numbers_of(a, at::kLong, 0, num_words),
                   numbers_of(b, at::kLong, 0, num_words)) &&
         at::equal(numbers_of(a, at::kByte, words_end, size - words_end),
                   numbers_of(b, at::kByte, words_end, size - words_end));
}

}  // namespace gradrecomp::tape
