#include "tape/dispatch/python_operators.h"

#include <dlfcn.h>

#include <mutex>
#include <utility>

#include "tape/aten/polite_lock.h"

// Note [ Operators of higher order ]
//
// torch.cond and while_loop, called or compiled, are not operators of the C++ dispatcher. Python
// finds their kernels itself, by the same keys, has none for ours and takes no fallback. But it
// skips keys in a list that each of these operators copies when it is made. So ours goes into that
// list and into all copies, by a few lines of Python, as nothing else reaches them. Where a torch
// module has no such list, these operators raise its own error in a region.

namespace gradrecomp::tape {
namespace {

constexpr auto kProgram = R"(exec('''
import sys
operators = sys.modules.get('torch._ops')
try:
    key = operators.torch._C._parse_dispatch_key('Fake')
    operators._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(key)
    for operator in list(operators._higher_order_ops.values()):
        operator.fallthrough(key)
except (AttributeError, RuntimeError):
    pass
''', {}))";

template <typename Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

void run_in_python(const char* program) {
  auto* const is_initialized = find<int()>("Py_IsInitialized");
  auto* const lock = find<int()>("PyGILState_Ensure");  // returns an enum
  auto* const unlock = find<void(int)>("PyGILState_Release");
  auto* const run = find<int(const char*)>("PyRun_SimpleString");
  const bool has_lock = lock != nullptr && unlock != nullptr;
  if (is_initialized == nullptr || !has_lock || run == nullptr || is_initialized() == 0) return;
  const int state = lock();
  run(program);
  unlock(state);
}

}  // namespace

void let_python_operators_pass() {
  static auto* mutex = new std::mutex;
  static bool done = false;
  const auto lock = lock_politely(*mutex);
  if (!std::exchange(done, true)) run_in_python(kProgram);
}

}  // namespace gradrecomp::tape
