#include "origin_json.h"

namespace gradrecomp::plan {

Json json_of(const Origin& origin) {
  // A member more in Origin does not compile here, so that none is forgotten.
  const auto& [description, dtype, device] = origin;
  return {{"description", description}, {"dtype", dtype}, {"device", device}};
}

Origin origin_of(const Field& field) {
  field.expect_members({"description", "dtype", "device"});
  return {field["description"].text(), field["dtype"].text(), field["device"].text()};
}

}  // namespace gradrecomp::plan
