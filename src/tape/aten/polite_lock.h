#pragma once

#include <mutex>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

// Note [ Locks and the interpreter ]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// In a Python process a replay may run an operator that is written in Python, and freeing memory
// may free a Python object: both take the interpreter's lock while they hold ours. Another thread
// may come with the interpreter's lock and ask for ours. So a thread that has to wait for one of
// our locks gives the interpreter's back meanwhile: ours comes first. The interpreter is asked for
// by name, as nothing here is linked with Python.

/// Gives the interpreter's lock back, if this thread has it, until the scope ends.
class WithoutInterpreter {
 public:
  WithoutInterpreter();
  ~WithoutInterpreter();
  WithoutInterpreter(const WithoutInterpreter&) = delete;
  WithoutInterpreter& operator=(const WithoutInterpreter&) = delete;

 private:
  void* state_ = nullptr;
};

/// Locks `mutex`, waiting without the interpreter's lock.
template <typename Mutex>
[[nodiscard]] std::unique_lock<Mutex> lock_politely(Mutex& mutex) {
  std::unique_lock<Mutex> lock(mutex, std::try_to_lock);
  if (!lock.owns_lock()) {
    const WithoutInterpreter waiting;
    lock.lock();
  }
  return lock;
}

}  // namespace gradrecomp::tape
