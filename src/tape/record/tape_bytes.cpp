#include "tape/record/tape_bytes.h"

#include <torch/csrc/autograd/variable.h>

#include "tape/aten/heap_blocks.h"
#include "tape/contents.h"
#include "tape/record/handle.h"

namespace gradrecomp::tape {
namespace {

std::int64_t bytes_behind(const c10::IValue& argument) {
  if (argument.isString()) return block_bytes(sizeof(c10::ivalue::ConstantString));
  if (!argument.isList()) return 0;
  const std::int64_t list = block_bytes(sizeof(c10::detail::ListImpl));
  return list + block_bytes(sizeof(c10::IValue) * argument.toListRef().size());
}

/// Of the block that elements are in which have no room in the vector itself.
template <typename T, unsigned N>
std::int64_t beside_bytes_of(const c10::SmallVector<T, N>& vector) {
  return vector.capacity() > N ? block_bytes_of(vector) : 0;
}

/// Beside its place on the tape.
std::int64_t bytes_of(const Op& op) {
  std::int64_t bytes =
      beside_bytes_of(op.arguments) + beside_bytes_of(op.reads) + beside_bytes_of(op.results);
  for (const c10::IValue& argument : op.arguments) bytes += bytes_behind(argument);
  return op.rng ? bytes + op.rng->bytes() : bytes;
}

/// Autograd holds a saved tensor with all that it knows of it, and a handle does not.
bool stands_for_a_tensor(const Tape& tape, ValueId id) {
  const Value& value = tape.values()[id];
  return value.num_handles > 0 && value.producer >= 0 && tape.abandoned(id);
}

/// Beside its place on the tape.
std::int64_t bytes_of(const Value& value) {
  const std::int64_t bytes = value.num_handles * block_bytes(sizeof(Handle));
  if (!value.rare) return bytes;
  const std::int64_t parts = value.rare->lent_parts ? value.rare->lent_parts->bytes() : 0;
  return bytes + parts + block_bytes(sizeof(RareParts)) + block_bytes_of(value.rare->aliases);
}

std::int64_t bytes_of(const Geometries& geometries) {
  const auto& kept = geometries.kept();
  return node_bytes_of(kept) + block_bytes(kept.bucket_count() * sizeof(void*));
}

}  // namespace

std::int64_t bytes_of(const Tape& tape) {
  std::int64_t bytes = sizeof(Tape) + bytes_of(tape.geometries()) + tape.contents().bytes() +
                       deque_bytes_of(tape.ops()) + deque_bytes_of(tape.values());
  for (const Op& op : tape.ops()) bytes += bytes_of(op);
  for (ValueId id = 0; id < static_cast<ValueId>(tape.values().size()); ++id) {
    bytes += bytes_of(tape.values()[id]);
    if (stands_for_a_tensor(tape, id)) bytes -= block_bytes(sizeof(torch::autograd::AutogradMeta));
  }
  return bytes;
}

}  // namespace gradrecomp::tape
