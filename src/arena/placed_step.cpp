#include "arena/placed_step.h"

#include <utility>

#include "arena/host_arena.h"

namespace gradrecomp::arena {

PlacedStep::PlacedStep(std::shared_ptr<SequenceAddresses> addresses)
    : id_(HostArena::of_process().placer().begin(std::move(addresses))) {}

PlacedStep::~PlacedStep() { HostArena::of_process().placer().end(id_, false); }

bool PlacedStep::complete() { return HostArena::of_process().placer().end(id_, true); }

}  // namespace gradrecomp::arena
