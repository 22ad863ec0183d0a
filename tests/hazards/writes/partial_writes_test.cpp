// Conformance H2, H3: raw writes to one part of a memory of which ops read and write others.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include "gradrecomp/region.h"
#include "support/messages.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

constexpr int kNumSteps = 4;
constexpr std::int64_t kNumRows = 1024;  // in several of the blocks that the guard compares
constexpr std::int64_t kFar = 1000;      // a row in another block than the first

/// By hand, so that it goes unseen. All of a row, as samples see rows.
void fill_row(const at::Tensor& table, std::int64_t row, float number) {
  std::fill_n(table[row].data_ptr<float>(), table.size(1), number);
}

at::Tensor product(const at::Tensor& constant, const at::Tensor& parameter) {
  return (constant.exp() * parameter).sum();
}

/// Steps of `body(parameter, table)`, where the table lies outside, and `after(table)`, which runs
/// between forward and backward.
HostileProgram steps_of(
    const std::function<at::Tensor(const at::Tensor& p, const at::Tensor& table)>& body,
    const std::function<void(const at::Tensor& table)>& after = {}) {
  return [=](const RunPart& run) {
    auto parameter = (torch::randn({64}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto table = torch::ones({kNumRows, 64}) * (step + 1) * 0.1;
      const auto y = run([&] { return body(parameter, table); });
      if (after) after(table);
      y.backward();
      all.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
    }
    return all;
  };
}

// The first pass gives back what autograd saved of the lent weight, which the second replays from.
TEST(PartialWrite, H3ToLentMemoryBeforeThePassThatGivesItBackIsPlainsOrAnError) {
  for (const bool is_written : {false, true}) {
    const auto program = [=](const RunPart& run) {
      std::vector<float> numbers(16 * 16, 0.25F);
      const auto p = torch::randn({8, 16}).requires_grad_();
      const auto q = torch::randn({16, 16}).requires_grad_();
      Tensors all;
      for (int step = 0; step < kNumSteps; ++step) {
        const auto weight = torch::from_blob(numbers.data(), {16, 16});
        at::Tensor first;
        const auto second = run([&] {
          first = p.sin().mm(weight).sum();
          return (q * weight.exp()).sum();
        });
        if (is_written) std::ranges::fill(numbers, 0.5F + 0.1F * static_cast<float>(step));
        first.backward();
        second.backward();
        all.push_back(std::exchange(p.mutable_grad(), at::Tensor()));
        all.push_back(std::exchange(q.mutable_grad(), at::Tensor()));
      }
      return all;
    };
    expect_same_or_error_in_every_mode(
        program, {.text = "overwritten", .least_num_same = is_written ? 12 : 24});
  }
}

TEST(PartialWrite, H3ToAnotherPartOfWhatIsWrittenInPlaceIsPlainsOrAnError) {
  for (const bool is_region_made : {false, true}) {
    SCOPED_TRACE(is_region_made);
    const auto program = steps_of([=](const at::Tensor& p, const at::Tensor& outer) {
      auto table = is_region_made ? torch::ones({kNumRows, 64}) : outer;
      auto sum = product(table[3], p) + product(table, p);
      fill_row(table, kFar, 2);
      table[5].fill_(2);
      sum = sum + product(table[kFar], p);
      fill_row(table, 900, 0.5);
      return sum + product(table[900], p) + product(table[5], p);
    });
    expect_same_or_error_in_every_mode(program, {.text = "overwritten", .least_num_same = 3});
  }
}

TEST(PartialWrite, H2BeforeAnOpFillsAnotherPartIsSeen) {
  for (const bool by_factory : {true, false}) {
    for (const bool is_constant : {true, false}) {
      SCOPED_TRACE(std::to_string(by_factory) + std::to_string(is_constant));
      expect_same_in_every_mode(steps_of([=](const at::Tensor& p, const at::Tensor& outer) {
        auto table = by_factory ? torch::zeros({kNumRows, 64}) : outer.mul(2);
        fill_row(table, kFar, 2);
        if (is_constant) {
          table[0].fill_(1);
        } else {
          table[0].copy_(p * 2);
        }
        return product(table, p);
      }));
    }
  }
}

// A constant that goes on as one, row by row, is not looked at whole for each.
TEST(PartialWrite, H2BetweenOpsThatFillOtherPartsIsSeen) {
  for (const bool is_followed_in_the_end : {false, true}) {
    for (const bool is_read_between : {false, true}) {
      SCOPED_TRACE(std::to_string(is_followed_in_the_end) + std::to_string(is_read_between));
      expect_same_in_every_mode(steps_of([=](const at::Tensor& p, const at::Tensor&) {
        auto table = torch::zeros({kNumRows, 64});
        at::Tensor sum = p.sum();
        for (std::int64_t row = 0; row < 8; ++row) {
          table[row].fill_(0.1 * static_cast<double>(row));
          if (row == 3) fill_row(table, kFar, 2);
          if (row == 5) fill_row(table, 1, 3);
          if (is_read_between) sum = sum + product(table[row], p);
        }
        if (is_followed_in_the_end) table[8].copy_(p * 2);
        return sum + product(table[1], p) + product(table[kFar], p) + product(table, p);
      }));
    }
  }
}

// What is made of constants is known by samples alone.
TEST(PartialWrite, H2BeforeAnOpWritesToAPartOfWhatIsKnownBySamplesIsSeen) {
  using Maker = std::function<at::Tensor(const at::Tensor&)>;
  const std::vector<Maker> makers = {
      [](const at::Tensor& outer) { return outer * 2; },
      [](const at::Tensor& outer) { return outer.clone(); },
      [](const at::Tensor& outer) { return (outer > 0.2).to(at::kFloat); },
      [](const at::Tensor& outer) {
        return torch::cat({outer, outer});
      },
  };
  for (const Maker& maker : makers) {
    for (const bool is_read_before : {false, true}) {
      expect_same_or_error_in_every_mode(
          steps_of([=](const at::Tensor& p, const at::Tensor& outer) {
            auto table = maker(outer);
            auto sum = is_read_before ? product(table[7], p) : p.sum();
            for (std::int64_t row = 100; row < 200; ++row) fill_row(table, row, 2);
            table[3].add_(1);
            return sum + product(table, p);
          }),
          {.text = "overwritten", .least_num_same = 24});
    }
  }
}

// One call writes to two parts of one memory.
TEST(PartialWrite, H2BetweenOpsThatFillSeveralPartsIsSeen) {
  expect_same_in_every_mode(steps_of([](const at::Tensor& p, const at::Tensor&) {
    auto table = torch::zeros({kNumRows, 64});
    for (int i = 0; i < 3; ++i) {
      const std::vector<at::Tensor> parts = {table[i], table[500 + i], table.select(1, i)};
      at::_foreach_add_(parts, 1);
      fill_row(table, kFar, static_cast<float>(i));
    }
    return product(table, p);
  }));
}

TEST(PartialWrite, H3BeforeANormalisationUpdatesAnotherPartIsPlainsOrAnError) {
  const auto program = steps_of([](const at::Tensor& p, const at::Tensor& table) {
    const auto read = product(table[kFar], p);
    fill_row(table, kFar, 2);
    const auto x = torch::linspace(0, 1, 16 * 64).view({16, 64}) * p;
    return read + at::batch_norm(x, {}, {}, table[0], table[1], true, 0.1, 1e-5, true).tanh().sum();
  });
  expect_same_or_error_in_every_mode(program, {.text = "overwritten", .least_num_same = 17});
}

TEST(PartialWrite, H3ToWhatAnOpReadsBeyondItsArgumentIsPlainsOrAnError) {
  const auto body = [](const at::Tensor& p, const at::Tensor& table) {
    return product(at::as_strided_copy(table[0], {64}, {1}, kFar * 64), p);
  };
  const auto after = [](const at::Tensor& table) { fill_row(table, kFar, 2); };
  expect_same_or_error_in_every_mode(steps_of(body, after),
                                     {.text = "overwritten", .least_num_same = 12});
}

TEST(PartialWrite, H2ToAPartThatAutogradHasSavedIsSeenWhenAnotherIsRead) {
  expect_same_in_every_mode(steps_of([](const at::Tensor& p, const at::Tensor&) {
    const auto table = torch::ones({kNumRows, 64});
    const auto saved = (table * p).sum();
    fill_row(table, kFar, 2);
    return saved + product(table[5], p);
  }));
}

TEST(PartialWrite, H3BetweenReadsOfTwoPartsOfAnInputIsPlainsOrAnError) {
  const auto program = steps_of([](const at::Tensor& p, const at::Tensor& table) {
    const auto first = product(table[0], p);
    fill_row(table, 0, 2);
    const auto second = product(table[kFar], p);
    return first + second + product(table[0], p);
  });
  expect_same_or_error_in_every_mode(program, {.text = "overwritten", .least_num_same = 3});
}

}  // namespace
}  // namespace gradrecomp::test
