// Conformance H1, H17: operators that read more of a memory than their argument shows, where that
// may be gone, or written anew, by the time of a replay.
#include <torch/torch.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gradrecomp/region.h"
#include "support/modes.h"
#include "support/own_operator.h"

namespace gradrecomp::test {
namespace {

constexpr int kNumSteps = 5;
constexpr std::int64_t kMemory = 5000;
constexpr std::int64_t kWidth = 200;

/// The element before each that the argument shows.
at::Tensor looks_before(const at::Tensor& x) {
  auto all = at::empty({0}, x.options());
  return all.set_(x.storage(), x.storage_offset() - 1, x.sizes(), x.strides()) * 2;
}

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) {
  library.def("looks_before(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(gradrecomp_test, CPU, library) { library.impl("looks_before", looks_before); }

using Reader = std::function<at::Tensor(const at::Tensor& part)>;

/// Each makes kWidth numbers of a part of kWidth elements that lies apart from where memory begins.
std::vector<std::pair<std::string, Reader>> readers() {
  return {
      {"as_strided_copy",
       [](const at::Tensor& part) { return at::as_strided_copy(part, {kWidth}, {1}, 150); }},
      {"as_strided",
       [](const at::Tensor& part) { return part.as_strided({kWidth}, {1}, 150) * 2; }},
      {"as_strided_scatter",
       [](const at::Tensor& part) {
         return at::as_strided_scatter(part, torch::ones({3}), {3}, {1}, 150).sin();
       }},
      {"slice_scatter",
       [](const at::Tensor& part) {
         return at::slice_scatter(part, torch::ones({3}), 0, 2, 5).sin();
       }},
      {"select_scatter",
       [](const at::Tensor& part) {
         return at::select_scatter(part, torch::ones({}), 0, 7).sin();
       }},
      {"_lazy_clone", [](const at::Tensor& part) { return at::_lazy_clone(part).sin(); }},
      {"one of another library",
       [](const at::Tensor& part) {
         const torch::NoGradGuard no_grad;
         return call_boxed("looks_before", {part});
       }},
  };
}

/// A step that makes much of `s`, so that replays start from it.
at::Tensor layers_of(const at::Tensor& h, const at::Tensor& w, const at::Tensor& s) {
  return (h * s).tanh().mm(w).sigmoid() * s * h;
}

TEST(ReadsBeyond, H17OfABufferThatTheRegionUpdatesAreExact) {
  for (const auto& [name, reader] : readers()) {
    SCOPED_TRACE(name);
    expect_same_in_every_mode([&, reader = reader](const RunPart& run) {
      auto w = (torch::randn({kWidth, kWidth}) * 0.1).requires_grad_();
      auto buffer = torch::zeros({kMemory});
      Tensors gradients;
      for (int step = 0; step < kNumSteps; ++step) {
        const auto x = torch::randn({16, kWidth});
        const auto y = run([&] {
          const auto part = buffer.narrow(0, 112, kWidth);
          {
            const torch::NoGradGuard no_grad;
            part.add_(0.5);
          }
          return layers_of(x.mm(w), w, reader(part));
        });
        buffer.add_(torch::arange(static_cast<double>(kMemory)).to(at::kFloat) * 1e-3);
        y.sum().backward();
        gradients.push_back(std::exchange(w.mutable_grad(), at::Tensor()));
      }
      return gradients;
    });
  }
}

TEST(ReadsBeyond, H1OfAParameterInLentMemoryAreExact) {
  for (const auto& [name, reader] : readers()) {
    if (name == "_lazy_clone") continue;  // takes no memory that LibTorch did not allocate
    SCOPED_TRACE(name);
    expect_same_in_every_mode([&, reader = reader](const RunPart& run) {
      auto w = (torch::randn({kWidth, kWidth}) * 0.1).requires_grad_();
      std::vector<float> memory(kMemory, 0.3F);
      const auto all = torch::from_blob(memory.data(), {kMemory});
      auto p = all.narrow(0, 112, kWidth).detach().requires_grad_();
      Tensors gradients;
      for (int step = 0; step < kNumSteps; ++step) {
        const auto x = torch::randn({16, kWidth});
        run([&] { return layers_of(x.mm(w), w, reader(p)); }).sum().backward();
        gradients.push_back(std::exchange(w.mutable_grad(), at::Tensor()));
        p.mutable_grad() = at::Tensor();
        for (std::size_t i = 0; i < memory.size(); ++i) memory[i] += 0.001F * static_cast<float>(i);
      }
      return gradients;
    });
  }
}

// Its extent is all of a storage, of which a copy will do.
TEST(ReadsBeyond, H17OfAllOfABufferAreExact) {
  expect_same_in_every_mode([](const RunPart& run) {
    auto w = (torch::randn({kWidth, kWidth}) * 0.1).requires_grad_();
    auto buffer = torch::zeros({kWidth});
    Tensors gradients;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto x = torch::randn({16, kWidth});
      const auto y = run([&] {
        {
          const torch::NoGradGuard no_grad;
          buffer.add_(0.5);
        }
        const auto s = at::select_scatter(buffer, torch::ones({}), 0, 7);
        return layers_of(x.mm(w), w, s.sin());
      });
      buffer.add_(1);
      y.sum().backward();
      gradients.push_back(std::exchange(w.mutable_grad(), at::Tensor()));
    }
    return gradients;
  });
}

}  // namespace
}  // namespace gradrecomp::test
