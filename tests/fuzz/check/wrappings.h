#pragma once

#include <cstdint>

#include "fuzz/check/outcome.h"
#include "gradrecomp/region.h"

namespace gradrecomp::fuzzing {

/// As a checkpoint that keeps nothing.
std::vector<torch::Tensor> dropped(const Body& body);
/// As a step of `region`, which must outlive the wrapping.
Wrapping in_region(Region& region);
/// The same, but the region sees nothing returned.
Wrapping captured_in(Region& region);
Wrapping between_open_and_close(Region& region);
/// A tape of its own, without a region, that keeps the values a bit vector names.
Wrapping on_tape(std::uint64_t seed);

}  // namespace gradrecomp::fuzzing
