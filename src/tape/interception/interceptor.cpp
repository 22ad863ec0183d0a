#include "tape/interception/interceptor.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include "tape/aten/intercepted_key.h"
#include "tape/interception/operator_kernels.h"

// Note [ Two ways to intercept ]
//
// The recorder must see each operator after autograd and autocast have done their part, with the
// dispatch keys and the thread-local state that its kernel gets in a plain run. Only kernels for a
// dispatch key of our own do that. Below Autograd and above BackendSelect, past which no factory
// can be seen, all keys but Fake have a fallback in LibTorch.
//
// 1. While Fake is unused, one fallback serves all operators.
// 2. A key has one fallback, and LibTorch is about to take that of Fake for fake tensors in C++. A
//    kernel for one operator goes before a fallback, though, so then every operator gets one of
//    ours. What is meant for fake tensors is passed on to the kernel that we found.
//
// Both ways give the recorder the same calls, keys and state. A dispatch mode on the key Python
// would need neither, but does not work: LibTorch calls a mode with all keys above Python excluded,
// autocast's among them, and does not say which were before. A kernel that calls operators then
// computes otherwise than in a plain run, whatever the mode does. And composite operators choose
// other code where a mode is on.

namespace gradrecomp::tape {
namespace {

CallReceiver receiver;

constexpr auto kMark = "gradrecomp::recorder";

// An operator without kernels, by which copies of GradRecomp in one process find each other.
c10::OperatorHandle leave_mark() {
  auto& dispatcher = c10::Dispatcher::singleton();
  TORCH_CHECK(
      !dispatcher.findSchema({kMark, ""}),
      "gradrecomp::Region: another copy of GradRecomp records in this process, but only one ",
      "can. Link all parts of the program with one shared library of GradRecomp.");
  static auto* library =
      new torch::Library(torch::Library::FRAGMENT, "gradrecomp", std::nullopt, __FILE__, __LINE__);
  library->def("recorder() -> ()");
  return dispatcher.findSchemaOrThrow(kMark, "");
}

bool key_is_free() {
  auto& dispatcher = c10::Dispatcher::singleton();
  return !dispatcher.hasBackendFallbackForDispatchKey(kInterceptedKey) &&
         dispatcher.getAllOpNamesForDispatchKey(kInterceptedKey).empty();
}

// The engine restores a thread's keys when a node has run, and brings this one back where a step
// that was open before was closed by a hook.
void intercept_alone(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                     torch::jit::Stack* stack) {
  if (!receiver.is_on()) c10::impl::tls_set_dispatch_key_included(kInterceptedKey, false);
  intercept(op, keys, stack);
}

void register_fallback() {
  static auto* library =
      new torch::Library(torch::Library::IMPL, "_", kInterceptedKey, __FILE__, __LINE__);
  library->fallback(torch::CppFunction::makeFromBoxedFunction<&intercept_alone>());
}

}  // namespace

void install_interceptor(const CallReceiver& to) {
  const c10::OperatorHandle mark = leave_mark();
  receiver = to;
  if (key_is_free()) {
    register_fallback();
  } else {
    OperatorKernels::install(mark);
  }
}

void intercept_new_operators() { OperatorKernels::catch_up(); }

void intercept(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard no_recursion(kInterceptedKey);
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kInterceptedKey);
  receiver.take(op, below, stack);
}

bool receives_calls() noexcept { return receiver.is_on(); }

}  // namespace gradrecomp::tape
