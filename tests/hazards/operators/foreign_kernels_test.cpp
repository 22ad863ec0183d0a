// Conformance H30: kernels of other libraries that look at, or change, what no argument shows.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <cfenv>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "gradrecomp/region.h"
#include "support/modes.h"
#include "support/own_operator.h"

namespace gradrecomp::test {
namespace {

constexpr int kNumSteps = 4;

at::Generator default_generator() { return at::detail::getDefaultCPUGenerator(); }

at::Tensor doubled_in_place(const at::Tensor& x) {
  at::Tensor y = x.use_count() == 1 ? x : x.clone();
  return y.mul_(2);
}

at::Tensor seeded_noise(const at::Tensor& x) {
  at::Generator generator = default_generator();
  {
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_current_seed(42);
  }
  return at::randn(x.sizes());
}

/// Doubles `x`, and leaves a setting of the process or the thread changed.
template <void (*change)()>
at::Tensor doubled(const at::Tensor& x) {
  change();
  return x * 2;
}

void prefer_doubles() { c10::set_default_dtype(caffe2::TypeMeta::Make<double>()); }
void take_one_thread() { at::set_num_threads(1); }
void round_up() { std::fesetround(FE_UPWARD); }
void be_deterministic() { at::globalContext().setDeterministicAlgorithms(true, true); }
void keep_no_casts() { at::autocast::set_autocast_cache_enabled(false); }
void cast_to_float16() { at::autocast::set_autocast_dtype(at::kCPU, at::kHalf); }

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) {
  for (const char* name : {"doubled_in_place", "seeded_noise", "plainly_doubled", "prefers_doubles",
                           "takes_one_thread", "rounds_up", "is_deterministic", "keeps_no_casts",
                           "casts_to_float16", "draws_once"}) {
    library.def((std::string(name) + "(Tensor x) -> Tensor").c_str());
  }
}
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("doubled_in_place", &doubled_in_place);
  library.impl("seeded_noise", &seeded_noise);
  library.impl("plainly_doubled", [](const at::Tensor& x) { return x * 2; });
  library.impl("draws_once", [](const at::Tensor& x) {
    static bool has_drawn = false;
    if (!std::exchange(has_drawn, true)) static_cast<void>(at::rand({1}));
    return x * 2;
  });
  library.impl("prefers_doubles", &doubled<prefer_doubles>);
  library.impl("takes_one_thread", &doubled<take_one_thread>);
  library.impl("rounds_up", &doubled<round_up>);
  library.impl("is_deterministic", &doubled<be_deterministic>);
  library.impl("keeps_no_casts", &doubled<keep_no_casts>);
  library.impl("casts_to_float16", &doubled<cast_to_float16>);
}

// LibTorch's own kernel is held back then.
TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("special_erfcx", [](const at::Tensor& x) { return x + at::rand_like(x); });
}

using Body = std::function<at::Tensor(const at::Tensor& hidden, const at::Tensor& weight)>;

HostileProgram steps_of(const Body& body, const std::function<at::Tensor()>& after = {}) {
  return [=](const RunPart& run) {
    const auto weight = (torch::randn({16, 16}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto x = torch::randn({16, 16});
      const auto y = run([&] { return body(x.mm(weight).tanh(), weight).sin(); });
      y.pow(2).sum().backward();
      all.push_back(gradient_of(weight));
      all.push_back(y.detach().clone());
      all.push_back(weight.detach().clone());
      if (after) all.push_back(after());
    }
    all.push_back(torch::rand({4}));
    return all;
  };
}

TEST(ForeignKernel, H30ThatWritesToWhatOnlyItHoldsWritesToNothingOfThePrograms) {
  expect_same_in_every_mode(steps_of([](const at::Tensor& hidden, const at::Tensor& weight) {
    return hidden.exp() * OwnOperator::apply(weight, "doubled_in_place");
  }));
}

// The second time in a row it leaves the generator as it finds it.
TEST(ForeignKernel, H30ThatSeedsAndDrawsLeavesTheGeneratorAsPlainly) {
  expect_same_in_every_mode(steps_of([](const at::Tensor& hidden, const at::Tensor& /*weight*/) {
    const auto first = call_boxed("seeded_noise", {hidden.detach()});
    const auto second = call_boxed("seeded_noise", {hidden.detach()});
    return torch::dropout((hidden * first.exp()).sin() * second.exp(), 0.3, true);
  }));
}

TEST(ForeignKernel, H30ThatReplacesLibTorchsMayDraw) {
  expect_same_in_every_mode(steps_of([](const at::Tensor& hidden, const at::Tensor& /*weight*/) {
    return hidden * at::special_erfcx(hidden.detach()).exp();
  }));
}

// As those hold it who draw by hand.
TEST(ForeignKernel, H30MayRunWhileTheProgramHoldsTheGeneratorsLock) {
  expect_same_in_every_mode(steps_of([](const at::Tensor& hidden, const at::Tensor& /*weight*/) {
    at::Generator generator = default_generator();
    const std::lock_guard<std::mutex> lock(generator.mutex());
    return hidden.exp() * call_boxed("plainly_doubled", {hidden.detach()});
  }));
}

// It has drawn nothing then, for all that is known once the lock is free.
TEST(ForeignKernel, H30IsMadeAgainOnceTheGeneratorsLockIsFree) {
  const auto weight = (torch::randn({16, 16}) * 0.3).requires_grad_();
  const auto num_replayed = [&](bool holds_lock) {
    Region region({.policy = "drop_all"});
    for (int step = 0; step < 3; ++step) {
      region
          .run([&] {
            at::Generator generator = default_generator();
            std::unique_lock<std::mutex> lock(generator.mutex(), std::defer_lock);
            if (holds_lock) lock.lock();
            return (weight.exp() * call_boxed("plainly_doubled", {weight.detach()})).sin();
          })
          .sum()
          .backward();
    }
    return region.last_step().num_replayed_ops;
  };
  const std::int64_t before = num_replayed(false);
  EXPECT_LT(num_replayed(true), before);
  EXPECT_EQ(num_replayed(false), before);
}

// As where another thread happened to draw during a call.
TEST(ForeignKernel, H30ThatDrewOnceIsMadeAgainInTheEnd) {
  const auto weight = (torch::randn({16, 16}) * 0.3).requires_grad_();
  const auto num_replayed = [&](const char* name) {
    Region region({.policy = "drop_all"});
    for (int step = 0; step < 3; ++step) {
      region
          .run([&] {
            at::Tensor h = weight;
            for (int i = 0; i < 20; ++i) h = (h * call_boxed(name, {weight.detach()})).sin();
            return h;
          })
          .sum()
          .backward();
    }
    return region.last_step().num_replayed_ops;
  };
  num_replayed("draws_once");
  EXPECT_EQ(num_replayed("draws_once"), num_replayed("plainly_doubled"));
}

TEST(ForeignKernel, H30WindowsEndAfterTheProgramHeldTheGeneratorsLock) {
  Options options;
  options.window_bytes = 1;
  const auto program = steps_of([](at::Tensor hidden, const at::Tensor& /*weight*/) {
    for (int i = 0; i < 4; ++i) {
      const auto kept = torch::dropout(hidden.detach(), 0.5, true);
      at::Generator generator = default_generator();
      const std::lock_guard<std::mutex> lock(generator.mutex());
      hidden = (hidden * kept).exp().sin();
    }
    return hidden;
  });
  torch::manual_seed(1);
  const auto plain = program([](const auto& body) { return body(); });
  torch::manual_seed(1);
  Region region(options);
  expect_same_bits(plain, program([&](const auto& body) { return region.run(body); }));
}

struct Setting {
  const char* operator_name;
  std::function<void()> put_back;
  std::function<at::Tensor()> look;
};

/// What replays must leave as the program has set it.
TEST(ForeignKernel, H30SettingsThatItLeavesBehindAreNotLeftBehindAgain) {
  const int num_threads = at::get_num_threads();
  at::set_num_threads(2);
  const auto number = [](double value) { return torch::full({1}, value, torch::kDouble); };
  const Setting settings[] = {
      {"prefers_doubles", [] { c10::set_default_dtype(caffe2::TypeMeta::Make<float>()); },
       [] { return torch::ones({2}); }},
      {"takes_one_thread", [] { at::set_num_threads(2); },
       [=] { return number(at::get_num_threads()); }},
      {"rounds_up", [] { std::fesetround(FE_TONEAREST); },
       [=] { return number(std::fegetround()); }},
      {"is_deterministic", [] { at::globalContext().setDeterministicAlgorithms(false, false); },
       [=] { return number(at::globalContext().deterministicAlgorithms() ? 1 : 0); }},
      {"keeps_no_casts", [] { at::autocast::set_autocast_cache_enabled(true); },
       [=] { return number(at::autocast::is_autocast_cache_enabled() ? 1 : 0); }},
      {"casts_to_float16", [] { at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16); },
       [=] { return number(static_cast<double>(at::autocast::get_autocast_dtype(at::kCPU))); }},
  };
  for (const Setting& setting : settings) {
    SCOPED_TRACE(setting.operator_name);
    expect_same_in_every_mode(steps_of(
        [&](const at::Tensor& hidden, const at::Tensor& /*weight*/) {
          const auto twice = call_boxed(setting.operator_name, {hidden.detach()});
          setting.put_back();
          return hidden.exp() * twice.sin();
        },
        setting.look));
  }
  at::set_num_threads(num_threads);
}

}  // namespace
}  // namespace gradrecomp::test
