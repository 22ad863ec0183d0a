#include "tape/aten/range.h"

#ifdef GRADRECOMP_HAS_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace gradrecomp::tape {

Range::Range(const std::string& name) : record_(at::RecordScope::USER_SCOPE) {
  if (record_.isActive()) record_.before(name);
#ifdef GRADRECOMP_HAS_NVTX
  // Not pushed: stages need not end in the reverse order of the program's own ranges.
  nvtx_range_ = nvtxRangeStartA(name.c_str());
#endif
}

Range::~Range() {
#ifdef GRADRECOMP_HAS_NVTX
  nvtxRangeEnd(nvtx_range_);
#endif
}

}  // namespace gradrecomp::tape
