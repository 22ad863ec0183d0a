#include "gradrecomp/checkpoint.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {
namespace {

at::Tensor run_children(torch::nn::Sequential& model, std::int64_t first, std::int64_t last,
                        at::Tensor input) {
  for (std::int64_t i = first; i < last; ++i) {
    auto child = model->begin() + i;
    input = child->forward(std::move(input));
  }
  return input;
}

}  // namespace

at::Tensor checkpoint_sequential(torch::nn::Sequential& model, std::int64_t segments,
                                 at::Tensor input) {
  const auto size = static_cast<std::int64_t>(model->size());
  TORCH_CHECK_VALUE(segments >= 1 && segments <= size, "checkpoint_sequential: segments is ",
                    segments, ", but must be between 1 and the model's ", size,
                    " children. Pass a number in that range.");
  const auto begin_of = [&](std::int64_t segment) { return segment * size / segments; };
  for (std::int64_t i = 0; i + 1 < segments; ++i) {
    input = checkpoint(
        [&](at::Tensor x) {
          return run_children(model, begin_of(i), begin_of(i + 1), std::move(x));
        },
        std::move(input));
  }
  return run_children(model, begin_of(segments - 1), size, std::move(input));
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
