// Conformance E6: operators that are not LibTorch's own, whose tags may say too little.
#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "gradrecomp/region.h"
#include "support/modes.h"
#include "support/own_operator.h"

namespace gradrecomp::test {
namespace {

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) { library.def("noisy(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(gradrecomp_test, CPU, library) {
  library.impl("noisy", [](const at::Tensor& x) { return x + at::rand_like(x); });
}

// No tag says that it draws.
TEST(ForeignOperator, E6ThatDrawsIsNotRunAgain) {
  expect_same_in_every_mode([](const RunPart& run) {
    const auto weight = torch::ones({8, 8}).requires_grad_();
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      const auto x = torch::randn({8, 8});
      run([&] { return OwnOperator::apply(x * weight, "noisy").sin(); }).sum().backward();
      all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
    }
    all.push_back(torch::rand({4}));
    return all;
  });
}

/// With more room behind it from call to call.
at::Tensor roomy(const at::Tensor& x) {
  static int num_calls = 0;
  const auto room = torch::zeros({x.numel() + ++num_calls % 7 * 100});
  const auto made = room.narrow(0, 0, x.numel());
  return made.copy_(x.reshape(-1)).view(x.sizes()).mul_(2);
}

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) { library.def("roomy(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(gradrecomp_test, CPU, library) { library.impl("roomy", roomy); }

TEST(ForeignOperator, E6ThatAllocatesAsItLikesIsPlainsOrAnError) {
  const auto program = [](const RunPart& run) {
    const auto weight = torch::ones({8, 8}).requires_grad_();
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      const auto x = torch::randn({8, 8});
      run([&] { return OwnOperator::apply(x * weight, "roomy").sin().exp(); }).sum().backward();
      all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
    }
    return all;
  };
  expect_same_or_error_in_every_mode(program,
                                     {.text = "allocates as it likes", .least_num_same = 20});
}

/// A generator that counts, as a library of random numbers may bring it.
class Counting final : public c10::GeneratorImpl {
 public:
  Counting()
      : GeneratorImpl(c10::Device(c10::kCPU),
                      c10::DispatchKeySet(c10::DispatchKey::CustomRNGKeyId)) {}
  void set_current_seed(std::uint64_t seed) override { count_ = seed; }
  std::uint64_t current_seed() const override { return count_; }
  std::uint64_t seed() override { return count_; }
  void set_offset(std::uint64_t /*offset*/) override { refuse(); }
  std::uint64_t get_offset() const override { refuse(); }
  void set_state(const c10::TensorImpl& /*state*/) override { refuse(); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { refuse(); }
  static c10::DeviceType device_type() { return c10::kCPU; }
  double next() { return 0.01 * static_cast<double>(++count_); }

 private:
  GeneratorImpl* clone_impl() const override { return new Counting(*this); }
  Counting(const Counting& other) : GeneratorImpl(other.device_, other.key_set_) {
    count_ = other.count_;
  }
  [[noreturn]] static void refuse() { TORCH_CHECK(false, "it has no such thing"); }

  std::uint64_t count_ = 0;
};

at::Tensor& count_into(at::Tensor& self, double mean, double deviation,
                       std::optional<at::Generator> generator) {
  return self.fill_(mean + deviation * generator->get<Counting>()->next());
}

TORCH_LIBRARY_IMPL(aten, CustomRNGKeyId, library) { library.impl("normal_", count_into); }

TEST(ForeignGenerator, E7IsLeftAlone) {
  expect_same_in_every_mode([](const RunPart& run) {
    const auto weight = torch::ones({8, 8}).requires_grad_();
    const auto generator = at::make_generator<Counting>();
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      const auto noisy = [&] {
        return (weight * torch::empty({8, 8}).normal_(0, 1, generator)).exp().sin();
      };
      run(noisy).sum().backward();
      all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
    }
    all.push_back(torch::full({}, static_cast<double>(generator.current_seed())));
    return all;
  });
}

/// A generator as CUDA's is: a seed and an offset, several states to choose from, and a note that
/// setting a seed takes away.
class Philox final : public c10::GeneratorImpl {
 public:
  struct State {
    std::uint64_t seed = 1;
    std::uint64_t offset = 0;
  };
  explicit Philox(std::shared_ptr<State> state = std::make_shared<State>())
      : GeneratorImpl(c10::Device(c10::kPrivateUse1, 0),
                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        state_(std::move(state)) {}
  void set_current_seed(std::uint64_t seed) override {
    *state_ = {seed, 0};
    has_note = false;
  }
  std::uint64_t current_seed() const override { return state_->seed; }
  std::uint64_t seed() override { return state_->seed; }
  void set_offset(std::uint64_t offset) override {
    state_->offset = offset;
    has_note = false;
  }
  std::uint64_t get_offset() const override { return state_->offset; }
  void set_state(const c10::TensorImpl& /*state*/) override {}
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return {}; }
  void graphsafe_set_state(const c10::intrusive_ptr<GeneratorImpl>& other) override {
    state_ = static_cast<const Philox&>(*other).state_;
  }
  c10::intrusive_ptr<GeneratorImpl> graphsafe_get_state() const override {
    return c10::make_intrusive<Philox>(state_);
  }
  static c10::DeviceType device_type() { return c10::kPrivateUse1; }
  double next() {
    return static_cast<double>(state_->seed) + 0.01 * static_cast<double>(++state_->offset);
  }

  bool has_note = true;

 private:
  GeneratorImpl* clone_impl() const override {
    return new Philox(std::make_shared<State>(*state_));
  }

  std::shared_ptr<State> state_;
};

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) {
  library.def("shifted(Tensor x, Generator? generator) -> Tensor",
              {at::Tag::nondeterministic_seeded});
}
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("shifted", [](const at::Tensor& x, std::optional<at::Generator> generator) {
    return x + generator->get<Philox>()->next();
  });
}

at::Tensor shifted(const at::Tensor& x, const at::Generator& generator) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("gradrecomp_test::shifted", "")
                             .typed<at::Tensor(const at::Tensor&, std::optional<at::Generator>)>();
  const at::AutoDispatchBelowADInplaceOrView below;
  return op.call(x, generator);
}

TEST(ForeignGenerator, E7OfADeviceKeepsWhatItNotes) {
  const auto weight = torch::ones({8}).requires_grad_();
  const auto steps = [&](const RunPart& run, const at::Generator& generator) {
    Tensors all;
    for (int step = 0; step < 4; ++step) {
      const auto drawn = [&] { return (weight * shifted(weight.detach(), generator)).exp().sin(); };
      run(drawn).sum().backward();
      all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
    }
    return all;
  };
  const auto plain = steps([](const auto& body) { return body(); }, at::make_generator<Philox>());
  Region region({.policy = "drop_all"});
  const auto generator = at::make_generator<Philox>();
  expect_same_bits(plain, steps([&](const auto& body) { return region.run(body); }, generator));
  EXPECT_GT(region.last_step().num_replayed_ops, 0);
  EXPECT_EQ(generator.get_offset(), 4);
  EXPECT_TRUE(generator.get<Philox>()->has_note);
}

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) { library.def("clip(Tensor x) -> ()"); }
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("clip", [](const at::Tensor& x) {
    auto* numbers = x.data_ptr<float>();
    for (std::int64_t i = 0; i < x.numel(); ++i) numbers[i] = std::min(0.25F, numbers[i]);
  });
}

double sum_of(at::ArrayRef<double> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) {
  library.def("scaled(Tensor x, float[] factors) -> Tensor");
  library.def("scaled_if(Tensor x, float[]? factors) -> Tensor");
  library.def("scaled_by_rows(Tensor x, float[][] factors) -> Tensor");
  library.def("read_storage(Tensor x, Storage storage) -> Tensor");
}
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("scaled", [](const at::Tensor& x, at::ArrayRef<double> factors) {
    return x * sum_of(factors);
  });
  library.impl("scaled_if", [](const at::Tensor& x, std::optional<c10::List<double>> factors) {
    return x * sum_of(factors.value().vec());
  });
  library.impl("scaled_by_rows",
               [](const at::Tensor& x, const c10::List<c10::List<double>>& factors) {
                 double sum = 0;
                 for (const c10::List<double>& row : factors) sum += sum_of(row.vec());
                 return x * sum;
               });
  library.impl("read_storage", [](const at::Tensor& x, const c10::Storage& storage) {
    return x + at::empty({0}, x.options()).set_(storage, 0, x.sizes(), x.strides());
  });
}

/// Steps that read what `op` makes of their input. `is_late`: not in the first steps, which are
/// verified, but in those that may follow a plan.
void expect_same_steps(const std::function<at::Tensor(const at::Tensor& x, bool is_late)>& op) {
  expect_same_in_every_mode([&](const RunPart& run) {
    const auto weight = torch::ones({8, 8}).requires_grad_();
    Tensors all;
    for (int step = 0; step < 6; ++step) {
      const auto x = torch::randn({8, 8});
      run([&] { return (op(x, step > 3).sin() * weight).exp(); }).sum().backward();
      all.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
    }
    return all;
  });
}

// The program may change a list that it has passed on. Replays get what the call got.
TEST(ForeignOperator, E6RunsAgainWithTheListsThatItGot) {
  for (const char* name : {"scaled", "scaled_if"}) {
    SCOPED_TRACE(name);
    expect_same_steps([&](const at::Tensor& x, bool is_late) {
      c10::List<double> factors({0.25, 0.5});
      const auto y = call_boxed(name, {x, factors});
      if (is_late) factors.set(0, 9.0);
      return y;
    });
  }
}

TEST(ForeignOperator, E6RunsAgainWithTheListsWithinLists) {
  expect_same_steps([](const at::Tensor& x, bool is_late) {
    c10::List<double> row({0.25, 0.5});
    const c10::List<c10::List<double>> rows({row, c10::List<double>({1.0})});
    const auto y = call_boxed("scaled_by_rows", {x, rows});
    if (is_late) row.set(0, 9.0);
    return y;
  });
}

// So too where LibTorch's own operators are called by a stack.
TEST(BoxedOperator, E6RunsAgainWithTheSizesThatItGot) {
  const auto full = c10::Dispatcher::singleton().findSchemaOrThrow("aten::full", "");
  expect_same_steps([&](const at::Tensor& x, bool is_late) {
    c10::List<std::int64_t> sizes({8, 8});
    torch::jit::Stack stack{sizes,         0.25,          c10::IValue(),
                            c10::IValue(), c10::IValue(), c10::IValue()};
    full.callBoxed(stack);
    if (is_late) sizes.set(0, 1);
    return stack.front().toTensor() * x;
  });
}

// Under a flag or a word it goes on from a state of its own, which only verification can find.
TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) {
  library.def("counted(Tensor x, bool counts, str how) -> Tensor");
}
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("counted", [](const at::Tensor& x, bool counts, c10::string_view how) {
    static double count = 0;
    return x + (counts || how == "counting" ? ++count : 0);
  });
}

TEST(ForeignOperator, E6IsVerifiedAnewWhereAFlagOrAWordIsAnother) {
  for (const bool by_word : {false, true}) {
    auto weight = torch::ones({8, 8}).requires_grad_();
    Region region({.policy = "drop_all"});
    for (int step = 0; step < 12; ++step) {
      const bool counts = step > 3;
      const auto x = torch::randn({8, 8});
      at::Tensor factor;
      const auto part = [&] {
        const auto counted = call_boxed(
            "counted", {x, counts && !by_word, counts && by_word ? "counting" : "plainly"});
        factor = counted.sin().detach().clone();
        return (counted.sin() * weight).exp();
      };
      region.run(part).sum().backward();
      const auto gradient = (factor * weight.detach()).exp() * factor;
      EXPECT_TRUE(at::equal(weight.grad(), gradient)) << "step " << step;
      weight.mutable_grad() = at::Tensor();
    }
  }
}

// What a storage holds may change without a trace.
TEST(ForeignOperator, E6ThatReadsAStorageIsNotRunAgain) {
  expect_same_steps([](const at::Tensor& x, bool is_late) {
    const auto a = x.sin();
    const auto b = call_boxed("read_storage", {x, a.storage()}).cos();
    a.mul_(is_late ? 3 : 1);
    return b;
  });
}

// Its schema does not say that it writes. In the first step there may be nothing to clip.
TEST(ForeignOperator, H4ThatReturnsNothingMayWrite) {
  static const auto clip = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("gradrecomp_test::clip", "")
                               .typed<void(const at::Tensor&)>();
  for (const double first_scale : {1e-6, 1.0}) {
    expect_same_in_every_mode([&](const RunPart& run) {
      auto weight = (torch::randn({8, 8}) * 0.3).requires_grad_();
      Tensors all;
      for (int step = 0; step < 4; ++step) {
        const auto x = torch::randn({8, 8}) * (step == 0 ? first_scale : 1);
        const auto y = run([&] {
          auto h = x.mm(weight);
          {
            const at::AutoDispatchBelowADInplaceOrView below;
            clip.call(h);
          }
          return h.exp().sin();
        });
        y.sum().backward();
        all.push_back(y.detach().clone());
        all.push_back(gradient_of(weight));
      }
      return all;
    });
  }
}

/// An operator that is there as long as this is.
class Loaded {
 public:
  Loaded()
      : library_(torch::Library::FRAGMENT, "gradrecomp_test", std::nullopt, __FILE__, __LINE__) {
    library_.def("loaded(Tensor x) -> Tensor");
    library_.impl("loaded", c10::DispatchKey::CPU, [](const at::Tensor& x) { return x * 2; });
  }

 private:
  torch::Library library_;
};

TEST(ForeignOperator, H7ThatIsUnloadedBeforeBackwardIsNamedWhereAReplayNeedsIt) {
  const int num_errors = expect_same_or_error_in_every_mode(
      [](const RunPart& run) {
        auto weight = (torch::randn({8, 8}) * 0.3).requires_grad_();
        Tensors all;
        for (int step = 0; step < 4; ++step) {
          auto loaded = std::make_unique<Loaded>();
          const auto x = torch::randn({8, 8});
          const auto y =
              run([&] { return OwnOperator::apply(x.mm(weight), "loaded").tanh().exp(); });
          loaded.reset();
          y.sum().backward();
          all.push_back(gradient_of(weight));
        }
        return all;
      },
      {.text = "made by gradrecomp_test::loaded, but the library of that operator was unloaded",
       .least_num_same = 14});
  EXPECT_GT(num_errors, 0);
}

}  // namespace
}  // namespace gradrecomp::test
