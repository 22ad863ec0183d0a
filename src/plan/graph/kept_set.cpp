#include "gradrecomp/plan/kept_set.h"

namespace gradrecomp::plan {

KeptSet keep_all(const Graph& graph) {
  KeptSet keep;
  for (const Value& v : graph.values) {
    const bool kept = v.producer >= 0 && v.overwritten_by < 0 && (v.saved || v.must_keep);
    keep.push_back(kept ? 1 : 0);
  }
  return keep;
}

KeptSet drop_all(const Graph& graph) {
  KeptSet keep;
  for (const Value& v : graph.values) {
    keep.push_back(v.producer >= 0 && v.overwritten_by < 0 && v.must_keep ? 1 : 0);
  }
  return keep;
}

}  // namespace gradrecomp::plan
