// Conformance H5: tensors whose memory is not there, of which operators read the shape alone.
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <cstring>
#include <optional>

#include "hazards/tensors/weight_steps.h"

namespace gradrecomp::test {
namespace {

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) {
  library.def("times_numel(Tensor x, Tensor? shape) -> Tensor");
}
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("times_numel", [](const at::Tensor& x, const std::optional<at::Tensor>& shape) {
    return x * (shape && shape->defined() ? static_cast<double>(shape->numel()) * 0.01 : 2.0);
  });
}

at::Tensor times_numel(const at::Tensor& x, const at::Tensor& shape) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("gradrecomp_test::times_numel", "")
          .typed<at::Tensor(const at::Tensor&, const std::optional<at::Tensor>&)>();
  return op.call(x, shape);
}

c10::StorageImpl& memory_of(const at::Tensor& tensor) {
  return *tensor.storage().unsafeGetStorageImpl();
}

void release(const at::Tensor& tensor) {
  memory_of(tensor).set_data_ptr({nullptr, c10::kCPU});
  memory_of(tensor).set_nbytes(0);
}

// As sharded training leaves a parameter between its layer's passes.
at::Tensor released() {
  auto made = torch::ones({6, 6});
  release(made);
  return made;
}

at::Tensor swapped_out() {
  auto made = torch::ones({6, 6});
  memory_of(made).set_data_ptr({nullptr, c10::kCPU});
  return made;
}

at::Tensor without_a_storage() {
  auto made = at::detail::make_tensor<c10::TensorImpl>(c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                       caffe2::TypeMeta::Make<float>(), c10::kCPU);
  made.unsafeGetTensorImpl()->set_sizes_contiguous({6, 6});
  return made;
}

using Make = at::Tensor (*)();

class AbsentMemory : public ::testing::TestWithParam<Make> {};

TEST_P(AbsentMemory, H5IsPassedToOperatorsThatDoNotReadIt) {
  expect_same_in_every_mode(
      weight_steps([make = GetParam()](const at::Tensor& weight, const at::Tensor& x) {
        const auto absent = make();
        const auto h = x.mm(weight).tanh();
        const auto scaled = times_numel(h.detach().exp(), absent);
        return scaled.sin() * h.exp();
      }));
}

TEST_P(AbsentMemory, H5FromOutsideIsPassedToOperatorsThatDoNotReadIt) {
  const at::Tensor absent = GetParam()();
  expect_same_in_every_mode(weight_steps([=](const at::Tensor& weight, const at::Tensor& x) {
    const auto h = x.mm(weight).tanh();
    const auto scaled = times_numel(h.detach().exp(), absent);
    return scaled.sin() * h.exp();
  }));
}

/// Of what it saves, backward reads the shape.
struct SavesShape : torch::autograd::Function<SavesShape> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& shape) {
    context->save_for_backward({shape});
    return x * 2;
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& gradients) {
    const auto shape = context->get_saved_variables()[0];
    return {gradients[0] * shape.numel(), at::Tensor()};
  }
};

TEST_P(AbsentMemory, H5IsSaved) {
  const Make make = GetParam();
  expect_same_in_every_mode(weight_steps([=](const at::Tensor& weight, const at::Tensor& x) {
    const auto h = SavesShape::apply(x.mm(weight).tanh(), make());
    return h.exp().sin();
  }));
}

INSTANTIATE_TEST_SUITE_P(Kinds, AbsentMemory,
                         ::testing::Values(&released, &swapped_out, &without_a_storage));

TEST(AbsentMemory, H5UndefinedTensorIsPassedOn) {
  expect_same_in_every_mode(weight_steps([](const at::Tensor& weight, const at::Tensor& x) {
    const auto h = x.mm(weight).tanh();
    return times_numel(h.detach().exp(), at::Tensor()).sin() * h.exp();
  }));
}

TEST(AbsentMemory, H5OfAParameterIsViewedAndFilledInTheRegion) {
  expect_same_in_every_mode([](const RunPart& run) {
    const auto shard = torch::randn({6, 6}) * 0.3;
    const auto weight = torch::empty({6, 6}).requires_grad_();
    release(weight);
    Tensors all;
    for (int step = 0; step < 3; ++step) {
      const auto x = torch::randn({4, 6});
      const auto y = run([&] {
        const auto flat = weight.view({36});
        const auto shape = flat.detach().view({1, 36});
        memory_of(weight).set_data_ptr(c10::GetCPUAllocator()->allocate(shard.nbytes()));
        memory_of(weight).set_nbytes(shard.nbytes());
        std::memcpy(weight.data_ptr(), shard.data_ptr(), shard.nbytes());
        return x.mm(flat.view({6, 6})).tanh().exp() * static_cast<double>(shape.numel());
      });
      y.sum().backward();
      all.push_back(gradient_of(weight));
      release(weight);
    }
    return all;
  });
}

}  // namespace
}  // namespace gradrecomp::test
