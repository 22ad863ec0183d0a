// Conformance E6, E7: what operators that are not LibTorch's own are given, and replays give them
// again.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/core/List.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "gradrecomp/region.h"
#include "support/modes.h"
#include "support/own_operator.h"

namespace gradrecomp::test {
namespace {

using MaybeGenerator = std::optional<at::Generator>;

at::Tensor draw(MaybeGenerator generator) {
  return torch::rand({8, 8}, std::move(generator), at::TensorOptions());
}

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) {
  library.def("noise(int count, Generator? generator) -> Tensor");
  library.def("tagged_noise(int count, Generator? first, Generator? second) -> Tensor",
              {at::Tag::nondeterministic_seeded});
  library.def("noise_of_both(Tensor x, Generator? first, Generator? second) -> Tensor");
  library.def("noise_of_copy(Tensor x, Generator? generator) -> Tensor");
  library.def("tagged_noise_of_copy(Tensor x, Generator? generator) -> Tensor",
              {at::Tag::nondeterministic_seeded});
  library.def("noise_of_list(Tensor x, Generator?[] generators) -> Tensor");
}
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("noise", [](std::int64_t /*count*/, MaybeGenerator generator) {
    return draw(std::move(generator));
  });
  library.impl("tagged_noise",
               [](std::int64_t /*count*/, const MaybeGenerator& first,
                  const MaybeGenerator& second) { return draw(first) + draw(second); });
  library.impl("noise_of_both",
               [](const at::Tensor& x, const MaybeGenerator& first, const MaybeGenerator& second) {
                 return first ? x + draw(second) : x * draw(second);
               });
  for (const char* name : {"noise_of_copy", "tagged_noise_of_copy"}) {
    library.impl(name, [](const at::Tensor& x, const MaybeGenerator& generator) {
      return x * draw(generator->clone());
    });
  }
  library.impl("noise_of_list",
               [](const at::Tensor& x, const c10::List<std::optional<at::Generator>>& generators) {
                 at::Tensor sum = x;
                 for (const MaybeGenerator generator : generators) sum = sum + draw(generator);
                 return sum;
               });
}

/// Steps of a region that draw by `noise` from generators of the program's own. What these give
/// afterwards must not change either.
void expect_same_draws(const std::function<at::Tensor(const at::Tensor& x, const at::Generator& one,
                                                      const at::Generator& other)>& noise) {
  expect_same_in_every_mode([&](const RunPart& run) {
    const auto one = at::make_generator<at::CPUGeneratorImpl>(1);
    const auto other = at::make_generator<at::CPUGeneratorImpl>(2);
    const auto weight = torch::ones({8, 8}).requires_grad_();
    Tensors all;
    for (int step = 0; step < 5; ++step) {
      const auto x = torch::randn({8, 8});
      const auto y = run([&] { return (noise(x, one, other).sin() * weight).exp(); });
      all.push_back(draw(one));
      y.sum().backward();
      all.push_back(gradient_of(weight));
    }
    for (const at::Generator& generator : {one, other}) all.push_back(draw(generator));
    all.push_back(torch::rand({4}));
    return all;
  });
}

TEST(ForeignOperator, E7ThatIsGivenAGeneratorAloneIsFoundToDrawFromIt) {
  expect_same_draws([](const at::Tensor& /*x*/, const at::Generator& one, const at::Generator&) {
    return call_boxed("noise", {8, one});
  });
}

TEST(ForeignOperator, E7ThatIsGivenTwoGeneratorsIsFoundToDrawFromEither) {
  for (const bool has_first : {false, true}) {
    SCOPED_TRACE(has_first);
    expect_same_draws([&](const at::Tensor& x, const at::Generator& one,
                          const at::Generator& other) {
      return call_boxed("noise_of_both", {x, has_first ? c10::IValue(one) : c10::IValue(), other});
    });
  }
}

TEST(ForeignOperator, E7ThatIsTaggedAndGivenTwoGeneratorsIsNotRunAgain) {
  for (const bool has_first : {false, true}) {
    SCOPED_TRACE(has_first);
    expect_same_draws([&](const at::Tensor&, const at::Generator& one, const at::Generator& other) {
      return call_boxed("tagged_noise", {8, has_first ? c10::IValue(one) : c10::IValue(), other});
    });
  }
}

TEST(ForeignOperator, E7ThatIsGivenAListOfGeneratorsIsFoundToDrawFromThem) {
  expect_same_draws([](const at::Tensor& x, const at::Generator& one, const at::Generator& other) {
    const c10::List<std::optional<at::Generator>> generators({one, other});
    return call_boxed("noise_of_list", {x, generators});
  });
}

// Which leaves the generator as it was.
TEST(ForeignOperator, E7ThatDrawsFromACopyOfAGeneratorDrawsTheSameAgain) {
  for (const char* name : {"noise_of_copy", "tagged_noise_of_copy"}) {
    SCOPED_TRACE(name);
    expect_same_draws([&](const at::Tensor& x, const at::Generator& one, const at::Generator&) {
      return call_boxed(name, {x, one});
    });
  }
}

// It tells no tensor from one that is not defined, as kernels that ask has_value() do.
TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) {
  library.def("halved_if_given(Tensor x, Tensor? y) -> Tensor");
  library.def("count_given(Tensor x, Tensor?[] y) -> Tensor");
}
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("halved_if_given", [](const at::Tensor& x, const std::optional<at::Tensor>& y) {
    return y.has_value() ? x * 0.5 : x * 2;
  });
  library.impl("count_given",
               [](const at::Tensor& x, const c10::List<std::optional<at::Tensor>>& y) {
                 double count = 0;
                 for (const std::optional<at::Tensor> tensor : y) count += tensor.has_value();
                 return x * count;
               });
}

/// Steps that pass `op` a tensor which is not defined: in all of them, or only in later ones.
void expect_same_absences(
    const std::function<at::Tensor(const at::Tensor& x, const c10::IValue& absent)>& op) {
  for (const int first : {0, 4}) {
    SCOPED_TRACE(first);
    expect_same_in_every_mode([&](const RunPart& run) {
      const auto weight = torch::ones({8, 8}).requires_grad_();
      Tensors all;
      for (int step = 0; step < 8; ++step) {
        const auto x = torch::randn({8, 8});
        const c10::IValue absent = step < first ? c10::IValue() : c10::IValue(at::Tensor());
        run([&] { return (op(x, absent).sin() * weight).exp(); }).sum().backward();
        all.push_back(gradient_of(weight));
      }
      return all;
    });
  }
}

TEST(ForeignOperator, E6RunsAgainWithATensorThatIsNotDefined) {
  expect_same_absences([](const at::Tensor& x, const c10::IValue& absent) {
    return call_boxed("halved_if_given", {x, absent});
  });
}

TEST(ForeignOperator, E6RunsAgainWithAListOfTensorsThatAreNotDefined) {
  expect_same_absences([](const at::Tensor& x, const c10::IValue& absent) {
    const auto tensor = absent.isNone() ? std::nullopt : std::optional<at::Tensor>(at::Tensor());
    const c10::List<std::optional<at::Tensor>> list({tensor, std::nullopt, at::Tensor()});
    return call_boxed("count_given", {x, list});
  });
}

}  // namespace
}  // namespace gradrecomp::test
