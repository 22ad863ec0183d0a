#include "tape/streams.h"

#include <algorithm>

namespace gradrecomp::tape {

std::optional<c10::Stream> stream_of_maker(const Tape& tape, ValueId value) {
  const OpId producer = tape.values()[value].producer;
  return producer < 0 ? std::nullopt : tape.ops()[producer].stream();
}

// A value written in place keeps the memory of another op, which may have run on another stream. An
// external value is copied where the first op writes to it.
std::optional<c10::Stream> home_of(const Tape& tape, ValueId value) {
  const auto& values = tape.values();
  const auto home = stream_of_maker(tape, value);
  for (ValueId id = values[value].overwrites; id >= 0 && values[id].producer >= 0;
       id = values[id].overwrites) {
    if (stream_of_maker(tape, id) != home) return std::nullopt;
  }
  return home;
}

c10::Device device_of(const Tape& tape) {
  const auto op =
      std::ranges::find_if(tape.ops(), [](const Op& o) { return o.stream().has_value(); });
  return op != tape.ops().end() ? op->stream()->device() : c10::Device(c10::kCPU);
}

}  // namespace gradrecomp::tape
