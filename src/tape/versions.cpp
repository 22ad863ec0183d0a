#include "tape/versions.h"

namespace gradrecomp::tape {

ValueId last_version(const Tape& tape, ValueId value) {
  while (tape.values()[value].overwritten_by >= 0) value = tape.values()[value].overwritten_by;
  return value;
}

ValueId last_in_memory(const Tape& tape, ValueId value) {
  for (ValueId next = tape.values()[value].overwritten_by; takes_over(tape, next, value);
       next = tape.values()[value].overwritten_by) {
    value = next;
  }
  return value;
}

bool takes_over(const Tape& tape, ValueId next, ValueId value) {
  return next >= 0 && tape.values()[next].overwrites == value;
}

}  // namespace gradrecomp::tape
