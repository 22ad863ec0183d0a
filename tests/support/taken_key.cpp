// Linked into a test, takes the recorder's dispatch key before it does, and lets no call pass.
#include <c10/util/Exception.h>
#include <torch/library.h>

namespace {

void refuse(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/,
            torch::jit::Stack* /*stack*/) {
  TORCH_CHECK(false, "a call of ", op.schema().name(), " reached who had the key Fake first");
}

}  // namespace

TORCH_LIBRARY_IMPL(_, Fake, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse>());
}
