#pragma once

#include "gradrecomp/plan/origin.h"
#include "json_field.h"
#include "json_text.h"

namespace gradrecomp::plan {

Json json_of(const Origin& origin);

/// Throws:  std::invalid_argument unless `field` is what json_of() gives.
Origin origin_of(const Field& field);

}  // namespace gradrecomp::plan
