#include "tape/replay/stream_handover.h"

#include "tape/aten/stream_scope.h"
#include "tape/streams.h"

namespace gradrecomp::tape {

// Another stream has waited for a replay only if it asked for it; and it is freed at home, wherever
// else it has been read.
void hand_over(const Tape& tape, ValueId id, const c10::Storage& storage,
               const c10::Stream& reader) {
  const auto maker = stream_of_maker(tape, id);
  const bool waits = maker && *maker != reader && made_again(tape.values()[id].hold);
  if (waits) order(*maker, reader);
  if (home_of(tape, id) != reader) note_use(storage, reader);
}

}  // namespace gradrecomp::tape
