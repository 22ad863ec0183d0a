#include "tape/aten/bytes.h"

#include <ATen/ATen.h>

#include <cstring>
#include <utility>

#include "tape/aten/below_recording.h"
#include "tape/geometry/geometry.h"

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

c10::Storage memory_like(const c10::Storage& storage) {
  const BelowRecording below;
  const std::size_t size = storage.data() == nullptr ? 0 : storage.nbytes();
  const std::size_t misalignment = misalignment_of(storage.data());
  const bool is_shifted = misalignment > 0 && can_have_like(storage);
  const auto allocated = static_cast<std::int64_t>(is_shifted ? size + kAlignment : size);
  const auto options = at::TensorOptions().dtype(at::kByte).device(storage.device());
  c10::Storage memory = at::empty({allocated}, options).storage();
  if (!is_shifted) return memory;
  c10::DataPtr whole = memory.set_data_ptr(c10::DataPtr());
  char* const begin = static_cast<char*>(whole.mutable_get());
  const std::size_t shift = (kAlignment + misalignment - misalignment_of(begin)) % kAlignment;
  const auto deleter = whole.get_deleter();
  c10::DataPtr shifted(begin + shift, whole.release_context(), deleter, storage.device());
  return {c10::Storage::use_byte_size_t(), size, std::move(shifted), memory.allocator(), false};
}

c10::Storage clone(const c10::Storage& storage) {
  const BelowRecording below;
  c10::Storage copy = memory_like(storage);
  if (bytes_in(storage) > 0) as_bytes(copy).copy_(as_bytes(storage));
  return copy;
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
