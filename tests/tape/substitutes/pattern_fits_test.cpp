// Calls of a kind are compared on patterns once, all others each.
#include "tape/substitutes/pattern_fits.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tape/record/recorder.h"

namespace gradrecomp::tape {
namespace {

/// Normalisations on a tape, and how many of them are compared.
class PatternFitsTest : public ::testing::Test {
 protected:
  void batch_norm(const at::Tensor& x, double eps = 1e-5) {
    const auto parameter = at::ones({x.size(1)});
    made_.push_back(at::native_batch_norm(x, parameter, parameter, {}, {}, true, 0.1, eps));
  }
  void layer_norm(const at::Tensor& x) {
    const auto parameter = at::ones({x.size(-1)}, x.options());
    made_.push_back(at::native_layer_norm(x, {x.size(-1)}, parameter, parameter, 1e-5));
  }

  /// Records `body` and asks for formula 0 of each, in order; the first to be compared fits if
  /// `first_fits`.
  std::vector<bool> ask(const std::function<void()>& body, bool first_fits = true) {
    const auto tape = std::make_shared<Tape>();
    {
      Recorder recorder(tape, {});
      recorder.take_apart();
      body();
    }
    std::vector<bool> answers;
    for (const Op& op : tape->ops()) {
      if (op.substitute == nullptr) continue;
      answers.push_back(
          fits_.fits(op, 0, [&] { return num_compared_++ == 0 ? first_fits : true; }));
    }
    return answers;
  }

  PatternFits fits_;
  int num_compared_ = 0;
  std::vector<std::tuple<at::Tensor, at::Tensor, at::Tensor>> made_;
};

TEST_F(PatternFitsTest, EqualCallsAreComparedOnce) {
  const auto answers = ask([&] {
    for (int i = 0; i < 5; ++i) batch_norm(at::rand({2, 8, 6, 6}));
  });
  EXPECT_EQ(answers, std::vector<bool>(5, true));
  EXPECT_EQ(num_compared_, 1);
}

TEST_F(PatternFitsTest, WhatDoesNotFitIsNotComparedAgain) {
  const auto answers = ask(
      [&] {
        for (int i = 0; i < 3; ++i) batch_norm(at::rand({2, 8, 6, 6}));
      },
      false);
  EXPECT_EQ(answers, std::vector<bool>(3, false));
  EXPECT_EQ(num_compared_, 1);
}

TEST_F(PatternFitsTest, SizesThatDifferByWholeVectorsAreOfAKind) {
  ask([&] {
    for (const int channels : {128, 192, 256, 1024}) batch_norm(at::rand({1, channels, 3, 3}));
    for (const int rows : {128, 192, 320}) layer_norm(at::rand({rows, 30}));
  });
  EXPECT_EQ(num_compared_, 2);
}

TEST_F(PatternFitsTest, WhatMayRoundOtherwiseIsComparedForItself) {
  ask([&] {
    batch_norm(at::rand({1, 128, 3, 3}));
    batch_norm(at::rand({1, 136, 3, 3}));                                     // a part of a vector
    batch_norm(at::rand({1, 64, 3, 3}));                                      // few
    batch_norm(at::rand({1, 128, 3, 4}));                                     // another shape
    batch_norm(at::rand({1, 128, 9}));                                        // fewer dimensions
    batch_norm(at::rand({1, 128, 3, 3}), 1e-3);                               // another number
    batch_norm(at::rand({1, 128, 3, 3}).to(at::MemoryFormat::ChannelsLast));  // another order
    batch_norm(at::rand({1, 128, 3, 3}).to(at::kDouble).to(at::kBFloat16));   // another type
    layer_norm(at::rand({128, 9}));                                           // another operator
  });
  EXPECT_EQ(num_compared_, 9);
  EXPECT_EQ(fits_.num_kinds(), 9U);
}

TEST_F(PatternFitsTest, In16BitsSizesAreCompared) {
  ask([&] {
    for (const int rows : {128, 192, 192, 320}) layer_norm(at::rand({rows, 30}).to(at::kBFloat16));
  });
  EXPECT_EQ(num_compared_, 3);
}

TEST_F(PatternFitsTest, InAnotherModeAllIsComparedAnew) {
  const auto once = [&] { batch_norm(at::rand({2, 8, 6, 6})); };
  ask(once);
  at::globalContext().setBenchmarkCuDNN(true);
  ask(once);
  at::globalContext().setBenchmarkCuDNN(false);
  ask(once);
  EXPECT_EQ(num_compared_, 2);
}

}  // namespace
}  // namespace gradrecomp::tape
