#include "tape/aten/polite_lock.h"

#include <dlfcn.h>

namespace gradrecomp::tape {
namespace {

/// What of Python's C interface is in the process.
struct Interpreter {
  int (*is_initialized)() = nullptr;
  int (*is_locked_by_us)() = nullptr;
  void* (*give_back)() = nullptr;
  void (*take)(void*) = nullptr;

  [[nodiscard]] bool is_there() const {
    const bool complete = is_initialized != nullptr && is_locked_by_us != nullptr &&
                          give_back != nullptr && take != nullptr;
    return complete && is_initialized() != 0;
  }
};

template <typename Function>
void find(Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

Interpreter interpreter() {
  Interpreter found;
  find(found.is_initialized, "Py_IsInitialized");
  find(found.is_locked_by_us, "PyGILState_Check");
  find(found.give_back, "PyEval_SaveThread");
  find(found.take, "PyEval_RestoreThread");
  return found;
}

}  // namespace

// Looked for each time, as waiting costs more and Python may come late.
WithoutInterpreter::WithoutInterpreter() {
  const Interpreter found = interpreter();
  if (found.is_there() && found.is_locked_by_us() != 0) state_ = found.give_back();
}

WithoutInterpreter::~WithoutInterpreter() {
  if (state_ != nullptr) interpreter().take(state_);
}

}  // namespace gradrecomp::tape
