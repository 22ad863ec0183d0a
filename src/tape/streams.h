#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <optional>

#include "tape/tape.h"

namespace gradrecomp::tape {

/// The stream of the op that made `value`; none: on the CPU, or no op of the region.
std::optional<c10::Stream> stream_of_maker(const Tape& tape, ValueId value);

/// The stream that the memory of `value` is allocated on; none: not known, or on the CPU.
std::optional<c10::Stream> home_of(const Tape& tape, ValueId value);

/// The first device other than the CPU that an op ran on, else the CPU.
c10::Device device_of(const Tape& tape);

}  // namespace gradrecomp::tape
