#include "tape/drafts/buffers.h"

#include <algorithm>
#include <cstdint>

#include "tape/lent/small_copies.h"

namespace gradrecomp::tape {

// A module that updates a buffer in each forward pass multiplies by a clone of it. A replay would
// copy what the buffer contains by then. Of a large one that is known only once the region has
// written to it.
bool copies_buffer(const Op& copy, const Tape& tape) {
  return std::ranges::any_of(copy.reads, [&](const Read& read) {
    const Value& value = tape.values()[read.value];
    const bool was_written = value.producer >= 0;
    return value.external && !read.written && !read.requires_grad &&
           (was_written || size_of(read.geometry->extent()) <= kMostCopiedBytes);
  });
}

bool makes_no_more_than_a_buffer(const Op& op, const Tape& tape) {
  std::int64_t bytes = 0;
  for (const Result& result : op.results) {
    if (result.read >= 0) return false;
    bytes += tape.values()[result.value].bytes;
  }
  return bytes > 0 && std::ranges::any_of(op.reads, [&](const Read& read) {
           const Value& value = tape.values()[read.value];
           const bool may_be_written = value.external && value.producer >= 0;
           const bool is_saved = value.num_handles > 0;  // so plain training does not write to it
           return may_be_written && !is_saved && value.bytes > kMostCopiedBytes &&
                  bytes <= value.bytes;
         });
}

}  // namespace gradrecomp::tape
