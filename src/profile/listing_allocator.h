#pragma once

#include <c10/core/Allocator.h>

#include "gradrecomp/version.h"

namespace gradrecomp::profile {

/// Counts what an allocator of the program's own hands out, and changes nothing of it: neither how
/// blocks are aligned nor what gives them back.
///
/// Lists blocks instead of writing beside them. A DataPtr's get() == get_context(), as code that
/// takes raw pointers from an allocator requires, also where that is not so of the program's.
/// Threads: any number, as far as the program's allocator allows. At most one in a process.
class ListingAllocator final : public c10::Allocator {
 public:
  /// `base` must live as long as the process.
  explicit ListingAllocator(c10::Allocator* base);

  c10::DataPtr allocate(std::size_t bytes) override;
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t bytes) const override;

 private:
  c10::Allocator* base_;
};

}  // namespace gradrecomp::profile
