// Conformance H1: borrowed memory of which parts are not there, or no longer, or wanted back.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <torch/library.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "gradrecomp/checkpoint.h"
#include "hazards/layer_steps.h"
#include "support/modes.h"
#include "support/own_operator.h"

namespace gradrecomp::test {
namespace {

/// Addresses of which only the first part is there to be read.
class PartlyOpen {
 public:
  static constexpr std::size_t kBytes = std::size_t{32} << 20;
  static constexpr std::size_t kOpenBytes = std::size_t{1} << 20;

  PartlyOpen()
      : begin_(
            mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    EXPECT_EQ(mprotect(begin_, kOpenBytes, PROT_READ | PROT_WRITE), 0);
    auto* numbers = static_cast<float*>(begin_);
    for (std::size_t i = 0; i < kOpenBytes / sizeof(float); ++i) {
      numbers[i] = 0.5F + 0.001F * static_cast<float>(i % 97);
    }
  }
  ~PartlyOpen() { munmap(begin_, kBytes); }
  PartlyOpen(const PartlyOpen&) = delete;
  PartlyOpen& operator=(const PartlyOpen&) = delete;

  [[nodiscard]] at::Tensor rows() const {
    return torch::from_blob(begin_, {kBytes / (16 * sizeof(float)), 16});
  }

 private:
  void* begin_;
};

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) {
  library.def("borrowed_doubled(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("borrowed_doubled", [](const at::Tensor& x) { return x * 2; });
}

// As of a data set that is mapped and read batch by batch.
TEST(VanishingMemory, H1BesideWhatIsReadNeedNotBeThere) {
  const PartlyOpen memory;
  const at::Tensor rows = memory.rows();
  expect_same_in_every_mode(steps_of(16, [&](Layers& layers, const at::Tensor& x, int step) {
    const auto batch = rows.narrow(0, 16 * step, x.size(0));
    const auto overlapping = rows.narrow(0, 16 * step + 3, x.size(0));
    const auto strided = rows.slice(0, step, rows.size(0), 1024).narrow(0, 0, 8).sum(0);
    const auto doubled =
        call_boxed("borrowed_doubled", {rows.narrow(0, 16 * step + 40, x.size(0))});
    return layers.b(torch::tanh(layers.a(x) * batch) * overlapping.sin() + strided.cos() * doubled);
  }));
}

// The first backward pass lets go of all that autograd holds of it, and replays of the second read
// other rows.
TEST(VanishingMemory, H1BesideWhatReplaysReadNeedNotBeThereWhenItIsCopied) {
  const PartlyOpen memory;
  const at::Tensor rows = memory.rows();
  expect_same_in_every_mode([&](const RunPart& run) {
    auto weight = (torch::randn({16, 16}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      at::Tensor scaled;
      const auto other = run([&] {
        scaled = rows.narrow(0, 16 * step, 16) * weight;
        const auto strided = rows.slice(0, step, rows.size(0), 1024).narrow(0, 0, 8).t();
        return (strided.narrow(1, 0, 1) + strided.sum() + rows.narrow(0, 64, 16) + weight).exp();
      });
      scaled.sum().backward();
      other.sin().sum().backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  });
}

constexpr std::int64_t kWidth = 128;
constexpr std::size_t kMappedBytes = kWidth * kWidth * sizeof(float);

/// Multiplies by lent memory, which it gives back as soon as its backward pass has read it.
struct ScaleOnce : torch::autograd::Function<ScaleOnce> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& lent,
                            const at::Tensor& x) {
    context->save_for_backward({lent});
    context->saved_data["address"] = reinterpret_cast<std::int64_t>(lent.data_ptr());
    return x * lent;
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& gradients) {
    auto gradient = gradients[0] * context->get_saved_variables()[0];
    munmap(reinterpret_cast<void*>(context->saved_data["address"].toInt()), kMappedBytes);
    return {at::Tensor(), gradient};
  }
};

TEST(VanishingMemory, H1GivenBackByTheNodeThatReadsItLastIsReplayedFrom) {
  expect_same_in_every_mode([](const RunPart& run) {
    auto weight = (torch::randn({kWidth, kWidth}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      void* const memory =
          mmap(nullptr, kMappedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      std::fill_n(static_cast<float*>(memory), kWidth * kWidth, 0.25F * (step + 1));
      at::Tensor scaled;
      const auto other = run([&] {
        const auto lent = torch::from_blob(memory, {kWidth, kWidth});
        scaled = ScaleOnce::apply(lent, weight);
        return (lent + weight).exp().sin();
      });
      scaled.sum().backward();
      other.sum().backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  });
}

/// Two pages, of which each can be taken away.
class TwoPages {
 public:
  static constexpr std::int64_t kNumbers = 1024;
  static constexpr std::size_t kBytes = kNumbers * sizeof(float);

  TwoPages()
      : begin_(
            mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    both().uniform_(0.5, 1.5);
  }
  ~TwoPages() { munmap(begin_, 2 * kBytes); }
  TwoPages(const TwoPages&) = delete;
  TwoPages& operator=(const TwoPages&) = delete;

  [[nodiscard]] at::Tensor both() const { return torch::from_blob(begin_, {2, kNumbers}); }
  void take_away(int page) {
    EXPECT_EQ(mprotect(static_cast<char*>(begin_) + page * kBytes, kBytes, PROT_NONE), 0);
  }

 private:
  void* begin_;
};

/// Steps of `step(run, pages, weight)`, each with pages of its own, and a weight of so many
/// numbers.
HostileProgram steps_with_pages(std::int64_t count,
                                void (*step)(const RunPart& run, TwoPages& pages,
                                             const at::Tensor& weight)) {
  return [=](const RunPart& run) {
    auto weight = torch::randn({count}).requires_grad_();
    Tensors all;
    for (int i = 0; i < 4; ++i) {
      TwoPages pages;
      step(run, pages, weight);
      all.push_back(gradient_of(weight));
    }
    return all;
  };
}

/// Backward reads the first page alone, from which it follows nothing about the other.
TEST(VanishingMemory, H1OfWhichAutogradSavedAnotherPartMayBeGone) {
  expect_same_in_every_mode(steps_with_pages(
      TwoPages::kNumbers, [](const RunPart& run, TwoPages& pages, const at::Tensor& weight) {
        const auto y = run([&] {
          const auto blob = pages.both();
          const auto saved = (blob[0] * weight).sin();
          const auto other = (blob[1] + weight).exp();
          return torch::tanh(saved * other);
        });
        pages.take_away(1);
        y.sum().backward();
      }));
}

TEST(VanishingMemory, H1IsCopiedPartByPartAsHandlesLetGoOfIt) {
  expect_same_in_every_mode(steps_with_pages(
      TwoPages::kNumbers, [](const RunPart& run, TwoPages& pages, const at::Tensor& weight) {
        at::Tensor first;
        const auto second = run([&] {
          const auto blob = pages.both();
          first = (blob[0] * weight).sin();
          const auto from_first = (blob[0] + weight).exp();
          return torch::tanh(from_first * (blob[1] * weight));
        });
        first.sum().backward();
        pages.take_away(0);
        second.sum().backward();
      }));
}

// Average pooling saves its input and asks backward for its sizes alone.
TEST(VanishingMemory, H1OfWhichBackwardAsksTheSizesAloneMayBeGoneOrThatIsAnError) {
  const auto program = steps_with_pages(
      TwoPages::kNumbers / 2, [](const RunPart& run, TwoPages& pages, const at::Tensor& weight) {
        const auto y = run([&] {
          const auto x = pages.both().requires_grad_();
          return torch::tanh(torch::avg_pool1d(x, 2) * weight);
        });
        pages.take_away(0);
        pages.take_away(1);
        y.sum().backward();
      });
  expect_same_or_error_in_every_mode(
      program, {.text = "bytes in the forward pass and has 0 now", .least_num_same = 1});
}

// Each token is saved, read beside that, and let go of without a backward pass, or with one.
TEST(VanishingMemory, H1OfASequenceIsLetGoOfTokenByToken) {
  constexpr std::int64_t kNumTokens = 400;
  std::vector<float> numbers(kNumTokens * 4);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.5F + 0.01F * (i % 37);
  expect_same_in_every_mode([&](const RunPart& run) {
    auto weight = torch::randn({4}).requires_grad_();
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      const auto y = run([&] {
        const auto sequence = torch::from_blob(numbers.data(), {kNumTokens, 4});
        at::Tensor state = weight.sin();
        for (std::int64_t i = 0; i < kNumTokens; ++i) {
          const auto token = sequence.select(0, i);
          state = torch::tanh(state * token + token);
        }
        return state;
      });
      if (step % 2 == 0) continue;
      y.sum().backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  });
}

// Whether it is there is asked without a descriptor of our own, which a program that closes all it
// does not know would give to a file of its own.
TEST(VanishingMemory, H1WhetherItIsThereIsAskedWithoutAFile) {
  std::vector<float> numbers(64, 0.25F);
  const auto step = [&] {
    const auto weight = torch::randn({8}).requires_grad_();
    const auto lent = torch::from_blob(numbers.data(), {8, 8});
    const auto y = checkpoint([&] {
      const auto scale = weight.tanh();
      return ((lent * scale) * (lent.mv(torch::ones({8})) * scale).sin()).exp();
    });
    y.sum().backward();
  };
  step();
  for (int descriptor = 3; descriptor < 256; ++descriptor) {
    std::error_code error;
    const auto link = "/proc/self/fd/" + std::to_string(descriptor);
    const std::string target = std::filesystem::read_symlink(link, error).string();
    if (target.starts_with("/memfd:")) close(descriptor);
  }
  constexpr std::string_view kText = "what the program wrote";
  std::vector<int> files;
  for (int i = 0; i < 40; ++i) {
    files.push_back(memfd_create("program", MFD_CLOEXEC));
    ASSERT_EQ(write(files.back(), kText.data(), kText.size()), static_cast<ssize_t>(kText.size()));
  }
  step();
  for (const int file : files) {
    std::string text(2 * kText.size(), ' ');
    const ssize_t size = pread(file, text.data(), text.size(), 0);
    EXPECT_EQ(text.substr(0, static_cast<std::size_t>(size)), kText);
    close(file);
  }
}

// Autocast copies weights to another type.
TEST(VanishingMemory, H1WeightsInItAreCopiedForCallsOfEveryKind) {
  std::vector<double> numbers(64);
  expect_same_in_every_mode([&](const RunPart& run) {
    auto weight = torch::from_blob(numbers.data(), {8, 8}, torch::kDouble);
    weight.copy_(torch::rand({8, 8}));
    weight.requires_grad_();
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      const auto x = torch::randn({8, 8});
      run([&] { return (weight.to(torch::kFloat) * x).tanh().sin(); }).sum().backward();
      all.push_back(gradient_of(weight));
    }
    return all;
  });
}

}  // namespace
}  // namespace gradrecomp::test
