#pragma once

#include <cstdint>
#include <vector>

#include "open_step.h"
#include "prices.h"

namespace gradrecomp::plan {

/// Which partial plans may make another needless.
enum class Rivals : std::uint8_t { none, of_as_many_visits, of_fewer_visits_too };

/// Drops partial plans that others make needless by prices: such as ask for no more, and have come
/// to no more.
///
/// See Note [ Needless partial plans ] in dominance.cpp. `all` know of the same values.
void drop_needless(std::vector<OpenSteps>& all, const Prices& prices, Rivals rivals);

}  // namespace gradrecomp::plan
