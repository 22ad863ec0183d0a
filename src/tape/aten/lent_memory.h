#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// Whether something other than LibTorch's allocators lent the memory of `storage`, through
/// from_blob() and the like. What frees it or writes to it, and when, is not ours to know. Mapped
/// files, which the storage itself unmaps, are not: they last as long as it does.
[[nodiscard]] bool is_lent(const c10::StorageImpl& storage);

/// What this frees is LibTorch's memory, though `allocator` is not that of the CPU any more. It
/// must live as long as the process.
void know_former_allocator(const c10::Allocator* allocator) noexcept;

/// Whether something is told when `storage` lets go of its memory, which as a rule is there till
/// then.
[[nodiscard]] bool has_deleter(const c10::StorageImpl& storage);

/// Whether so many bytes of host memory can be read: a program may have unmapped or protected what
/// it had lent. True where the system cannot say.
[[nodiscard]] bool is_readable(const void* begin, std::int64_t num_bytes);

/// Whether it is a file's content, or memory that processes share.
[[nodiscard]] bool is_mapped(const c10::StorageImpl& storage);

/// Whether it is either: two quick looks where LibTorch's allocators made the memory.
[[nodiscard]] bool is_lent_or_mapped(const c10::StorageImpl& storage);

/// How many owners `storage` has among the tensors that an operator returned, and those which they
/// are views of to autograd, if nothing else holds these.
[[nodiscard]] std::size_t num_owners_in(c10::ArrayRef<c10::IValue> returned,
                                        const c10::StorageImpl& storage);

/// Whether something else holds `tensor`, one of what an operator `returned`, or its memory.
/// `num_own`: how many references to each the caller holds beside `returned`.
[[nodiscard]] bool is_held_elsewhere(const at::Tensor& tensor, c10::ArrayRef<c10::IValue> returned,
                                     std::size_t num_own);

}  // namespace gradrecomp::tape
