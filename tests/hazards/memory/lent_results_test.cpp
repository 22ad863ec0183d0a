// Conformance H1: operators that return memory which is not theirs to give away, or that they keep.
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <tuple>
#include <vector>

#include "gradrecomp/region.h"
#include "support/modes.h"
#include "support/own_process.h"
#include "support/temporary_folder.h"

namespace gradrecomp::test {
namespace {

constexpr int kNumSteps = 4;
constexpr std::int64_t kSize = 64;

void write_file(const std::string& path, float number) {
  const std::vector<float> numbers(kSize, number);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(numbers.data()), kSize * sizeof(float));
}

float first_of_file(const std::string& path) {
  float number = 0;
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&number), sizeof(number));
  return number;
}

/// Steps whose region adds to a parameter what `make` returns, and what `after` does then.
HostileProgram steps_with(
    const std::function<at::Tensor(int step)>& make, const std::function<void()>& after = [] {}) {
  return [=](const RunPart& run) {
    Tensors all;
    const auto parameter = torch::randn({kSize}).requires_grad_();
    for (int step = 0; step < kNumSteps; ++step) {
      parameter.mutable_grad() = at::Tensor();
      const auto y = run([&] { return torch::sin(make(step) * 3.0 + parameter).tanh(); });
      after();
      y.sum().backward();
      all.push_back(y.detach().clone());
      all.push_back(parameter.grad());
    }
    return all;
  };
}

TEST(MappedFile, H1IsNeverWrittenByAReplay) {
  const test::TemporaryFolder folder;
  const std::string path = (folder / "numbers").string();
  for (const bool is_shared : {true, false}) {
    write_file(path, 0.5F);
    expect_same_in_every_mode(
        steps_with([&](int /*step*/) { return torch::from_file(path, is_shared, kSize); }));
    EXPECT_EQ(first_of_file(path), 0.5F);
  }
}

TEST(MappedFile, H1MayBeRewrittenOrGoneBeforeBackward) {
  const test::TemporaryFolder folder;
  const std::string path = (folder / "numbers").string();
  const auto read = [&](int step) {
    write_file(path, 0.25F * static_cast<float>(step));
    return torch::from_file(path, false, kSize);
  };
  expect_same_in_every_mode(steps_with(read, [&] { std::filesystem::remove(path); }));
  expect_same_in_every_mode(steps_with(read, [&] {
    const std::string other = path + "2";
    write_file(other, 7);
    std::filesystem::rename(other, path);
  }));
}

at::Tensor last_table;  // that the operator below made

at::Tensor table(std::int64_t size) {
  if (!last_table.defined() || last_table.numel() != size) {
    last_table = torch::arange(size, torch::kFloat).mul(0.1).sin();
  }
  return last_table;
}

at::Tensor doubled(const at::Tensor& x) {
  static std::array<float, kSize> workspace;
  for (std::size_t i = 0; i < workspace.size(); ++i)
    workspace[i] = 2 * x.const_data_ptr<float>()[i];
  return torch::from_blob(workspace.data(), {kSize});
}

at::Tensor copied(const at::Tensor& x) { return x.clone(); }

std::tuple<at::Tensor, at::Tensor> halves(const at::Tensor& x) {
  const at::Tensor both = at::cat({x, x});
  return {both.narrow(0, 0, kSize), both.narrow(0, kSize, kSize)};
}

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) {
  library.def("table(int size) -> Tensor");
  library.def("doubled(Tensor x) -> Tensor");
  library.def("copied(Tensor x) -> Tensor");
  library.def("halves(Tensor x) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("table", &table);
  library.impl("doubled", &doubled);
  library.impl("copied", &copied);
  library.impl("halves", &halves);
}

template <typename Signature, typename... Arguments>
at::Tensor call(const char* name, const Arguments&... arguments) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>().call(
      arguments...);
}

at::Tensor call_table(std::int64_t size) {
  return call<at::Tensor(std::int64_t)>("gradrecomp_test::table", size);
}

TEST(KeptResult, H1OfAnOperatorWithACacheIsLeftAsItIs) {
  expect_same_in_every_mode([](const RunPart& run) {
    last_table = at::Tensor();
    return steps_with([](int /*step*/) { return call_table(kSize); },
                      [] { static_cast<void>(call_table(4)); })(run);
  });
}

TEST(KeptResult, H1OfAnOperatorThatFillsItsCacheInTheRegionIsLeftAsItIs) {
  expect_same_in_every_mode([](const RunPart& run) {
    last_table = at::Tensor();
    return steps_with([](int /*step*/) {
      const auto made = call_table(kSize) * 2.0;
      static_cast<void>(call_table(4));
      return made;
    })(run);
  });
}

at::Tensor twice(const at::Tensor& x) {
  return call<at::Tensor(const at::Tensor&)>("gradrecomp_test::doubled", x);
}

// Autograd reads again what it has saved of it, whatever that is by then, but nothing else.
TEST(KeptResult, H1ThatANodeSavesIsReadAsItWas) {
  const auto x = torch::randn({kSize});
  expect_same_in_every_mode([&](const RunPart& run) {
    Tensors all;
    const auto parameter = torch::randn({kSize}).requires_grad_();
    for (int step = 0; step < kNumSteps; ++step) {
      parameter.mutable_grad() = at::Tensor();
      const auto y = run([&] {
        const auto made = twice(x + step);
        const auto first = torch::sin(made * parameter);
        static_cast<void>(twice(x * 3));  // fills the workspace again
        return first + torch::sin(made * parameter.tanh());
      });
      y.sum().backward();
      all.push_back(y.detach().clone());
      all.push_back(parameter.grad());
    }
    return all;
  });
}

/// How many ops the second step of a region replays that multiplies by what `make` returns.
std::int64_t num_replayed_with(const std::function<at::Tensor(const at::Tensor&)>& make) {
  const auto x = torch::randn({kSize});
  const auto parameter = torch::randn({kSize}).requires_grad_();
  Region region({.policy = "drop_all"});
  for (int step = 0; step < 2; ++step) {
    region.run([&] { return torch::sin(make(x) * parameter); }).sum().backward();
  }
  return region.last_step().num_replayed_ops;
}

TEST(KeptResult, H1IsNoneOfSeveralViewsOfOneFreshBuffer) {
  using Halves = std::tuple<at::Tensor, at::Tensor>(const at::Tensor&);
  const auto half = [](const at::Tensor& x) {
    static const auto op =
        c10::Dispatcher::singleton().findSchemaOrThrow("gradrecomp_test::halves", "");
    return std::get<0>(op.typed<Halves>().call(x));
  };
  const auto copy = [](const at::Tensor& x) {
    return call<at::Tensor(const at::Tensor&)>("gradrecomp_test::copied", x);
  };
  EXPECT_EQ(num_replayed_with(half), num_replayed_with(copy));
}

TEST(KeptResult, H1InAWorkspaceIsReadWhileItIsThere) {
  const auto x = torch::randn({kSize});
  expect_same_in_every_mode(steps_with([&](int step) {
    const auto first = twice(x) + step;
    return first * (twice(x * 2) + 1.0);
  }));
}

at::Tensor ring;  // of which the operator below returns one slot after the other
std::int64_t next_slot = 0;

at::Tensor into_slot(const at::Tensor& x) {
  constexpr std::int64_t kNumSlots = 4;
  if (!ring.defined()) ring = torch::zeros({kNumSlots * kSize});
  const at::Tensor slot = ring.narrow(0, next_slot++ % kNumSlots * kSize, kSize).view({kSize});
  for (std::int64_t i = 0; i < kSize; ++i)
    slot.mutable_data_ptr<float>()[i] = 2 * x.const_data_ptr<float>()[i];
  return slot;
}

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) { library.def("into_slot(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(gradrecomp_test, CPU, library) { library.impl("into_slot", &into_slot); }
TORCH_LIBRARY_IMPL(gradrecomp_test, Autograd, library) {
  library.impl("into_slot", torch::CppFunction::makeFallthrough());
}

// To run it once more would fill a slot that backward of another step still reads.
TEST(KeptResult, H1ThatIsAViewOfWhatTheOperatorKeepsIsLeftAsItIs) {
  expect_same_in_every_mode([](const RunPart& run) {
    next_slot = 0;
    const auto parameter = torch::randn({kSize}).requires_grad_();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      parameter.mutable_grad() = at::Tensor();
      Tensors losses;
      for (int part = 0; part < 2; ++part) {
        losses.push_back(run([&] {
          const auto h = torch::tanh(parameter + part);
          at::Tensor sum = h;
          for (int i = 0; i < 2; ++i) {
            sum =
                sum + call<at::Tensor(const at::Tensor&)>("gradrecomp_test::into_slot", h + i) * h;
          }
          return sum.sin();
        }));
      }
      for (const at::Tensor& loss : losses) loss.sum().backward();
      all.push_back(parameter.grad());
    }
    return all;
  });
}

/// Memory that is gone for good when it dies, so that no read goes unnoticed.
class Mapped {
 public:
  Mapped()
      : memory_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    std::fill_n(static_cast<float*>(memory_), kCount, 0.25F);
  }
  ~Mapped() { munmap(memory_, kBytes); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  [[nodiscard]] void* get() const { return memory_; }

  static constexpr std::int64_t kCount = 1 << 18;
  static constexpr std::size_t kBytes = kCount * sizeof(float);

 private:
  void* memory_;
};

/// Steps that add to a parameter what `borrow` makes of memory that is gone before backward.
HostileProgram steps_over_mapped(const std::function<at::Tensor(void*)>& borrow) {
  return [=](const RunPart& run) {
    Tensors all;
    const auto parameter = torch::randn({Mapped::kCount}).requires_grad_();
    for (int step = 0; step < kNumSteps; ++step) {
      parameter.mutable_grad() = at::Tensor();
      auto memory = std::make_unique<Mapped>();
      const auto y = run([&] { return torch::sin(parameter + borrow(memory->get())).tanh(); });
      memory.reset();
      y.sum().backward();
      all.push_back(parameter.grad());
    }
    return all;
  };
}

TEST(BorrowedMemory, H1OfAParameterThatNoNodeSavesMayGo) {
  expect_same_in_every_mode(steps_over_mapped(
      [](void* memory) { return torch::from_blob(memory, {Mapped::kCount}).requires_grad_(); }));
}

TEST(BorrowedMemory, H1InAStorageThatNamesAnAllocatorMayGo) {
  for (const bool is_resizable : {false, true}) {
    expect_same_in_every_mode(steps_over_mapped([=](void* memory) {
      const c10::Storage storage(c10::Storage::use_byte_size_t(), Mapped::kBytes,
                                 at::DataPtr(memory, at::kCPU), c10::GetAllocator(at::kCPU),
                                 is_resizable);
      return torch::empty({0}).set_(storage, 0, {Mapped::kCount}, {1});
    }));
  }
}

TEST(BorrowedMemory, H1BiasesInItAreCopiedAndReplayedFrom) {
  std::vector<float> numbers(kSize, 0.125F);
  const auto bias = torch::from_blob(numbers.data(), {kSize}).requires_grad_();
  const auto weight = torch::randn({kSize, kSize}).requires_grad_();
  const auto x = torch::randn({8, kSize}).requires_grad_();
  Region region({.policy = "drop_all"});
  for (int step = 0; step < 3; ++step) {
    region.run([&] { return torch::linear(x, weight, bias).exp().sin(); }).sum().backward();
  }
  EXPECT_EQ(region.last_step().num_replayed_ops, 2);
}

TEST(BorrowedMemory, H1BiasesInItAreCopiedOnceHoweverOftenTheyAreRead) {
  std::vector<float> numbers(kSize, 0.125F);
  const auto weight = torch::randn({kSize, kSize}).requires_grad_();
  const auto num_ops = [&](const at::Tensor& bias) {
    Region region({.policy = "drop_all"});
    const auto y = region.run([&] {
      auto h = torch::ones({8, kSize});
      for (int i = 0; i < 20; ++i) h = torch::linear(h, weight, bias).tanh();
      return h;
    });
    y.sum().backward();
    return region.last_step().num_ops;
  };
  const auto lent = torch::from_blob(numbers.data(), {kSize}).requires_grad_();
  EXPECT_EQ(num_ops(lent), num_ops(lent.detach().clone().requires_grad_()) + 1);
}

TEST(BorrowedMemory, H1OfAParameterThatIsRefilledBetweenReadsIsReadAsItWas) {
  expect_same_in_every_mode([](const RunPart& run) {
    const auto parameter = torch::randn({kSize}).requires_grad_();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      parameter.mutable_grad() = at::Tensor();
      std::vector<float> numbers(kSize, 0.125F);
      const auto bias = torch::from_blob(numbers.data(), {kSize}).requires_grad_();
      const auto y = run([&] {
        const auto first = (parameter + bias).sin();
        std::ranges::fill(numbers, 0.5F);
        return first + (parameter.tanh() + bias).sin();
      });
      y.sum().backward();
      all.push_back(parameter.grad());
    }
    return all;
  });
}

// Sums go through copies of them in another order.
TEST(BorrowedMemory, H1OfParametersWithGapsOrRepeatsIsReadInItsOrder) {
  expect_same_in_every_mode([](const RunPart& run) {
    float number = 0.1F;
    const auto repeated =
        torch::from_blob(&number, at::IntArrayRef{4099}, at::IntArrayRef{0}).requires_grad_();
    const auto parameter = torch::randn({kSize}).requires_grad_();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      parameter.mutable_grad() = at::Tensor();
      const auto y = run([&] { return (repeated.sum() * 1.7 + parameter).sin(); });
      y.sum().backward();
      all.push_back(parameter.grad());
    }
    return all;
  });
}

TEST(LoadedParameter, H1IsNotInLentMemory) {
  constexpr std::int64_t kWidth = 1 << 15;
  std::stringstream stream;
  torch::save(torch::randn({kWidth}), stream);
  at::Tensor loaded;
  torch::load(loaded, stream);
  const auto x = torch::randn({2, kWidth}).requires_grad_();
  const auto num_replayed = [&](const at::Tensor& bias) {
    Region region({.policy = "drop_all"});
    for (int step = 0; step < 2; ++step) {
      region.run([&] { return (x + bias).exp().sin(); }).sum().backward();
    }
    return region.last_step().num_replayed_ops;
  };
  const auto own = torch::randn({kWidth}).requires_grad_();
  EXPECT_EQ(num_replayed(loaded.requires_grad_()), num_replayed(own));
}

class LoadedBeforeTheFirstRegion : public OwnProcess {};

// By then another allocator than that of its memory is the CPU's.
TEST_F(LoadedBeforeTheFirstRegion, H1IsNotInLentMemory) {
  const auto body = [] {
    std::stringstream stream;
    torch::save(torch::randn({1000, 100}), stream);
    at::Tensor table;
    torch::load(table, stream);
    const auto rows = torch::randint(1000, {64});
    auto weight = torch::randn({64, 100}).requires_grad_();
    const auto num_replayed = [&](const at::Tensor& from) {
      Region region({.policy = "drop_all"});
      for (int step = 0; step < 4; ++step) {  // the second has a gradient to add to, and is another
        region.run([&] { return (weight + from.index_select(0, rows)).exp().sin(); })
            .sum()
            .backward();
      }
      return region.last_step().num_replayed_ops;
    };
    const auto of_loaded = num_replayed(table);
    const auto of_own = num_replayed(table.clone());
    TORCH_CHECK(of_loaded == of_own, of_loaded, " ops are replayed, not ", of_own);
  };
  EXPECT_EXIT(exit_after(body), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace gradrecomp::test
