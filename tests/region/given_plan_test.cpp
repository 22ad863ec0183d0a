// Plans made elsewhere: obeyed where they fit, refused where they do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "gradrecomp/profile/memory_meter.h"
#include "gradrecomp/region/region.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;
using ::testing::HasSubstr;

constexpr int kNumStages = 12;

// Twelve stages of Linear, GELU and a residual sum; only the sum crosses their boundaries.
class Chain {
 public:
  Chain() {
    torch::manual_seed(1);
    input_ = torch::randn({16, 32});
    for (int i = 0; i < kNumStages; ++i) {
      linears_.emplace_back(32, 32);
      for (auto& parameter : linears_.back()->parameters()) {
        parameter.mutable_grad() = torch::zeros_like(parameter);
        parameters_.push_back(parameter);
      }
    }
  }

  at::Tensor forward() {
    at::Tensor x = input_;
    for (int i = 0; i < kNumStages; ++i) {
      begin_stage("stage" + std::to_string(i));
      x = x + torch::gelu(linears_[i]->forward(x));
    }
    return x.pow(2).sum();
  }

  // One step in `region`; returns its measured peak.
  std::int64_t step(Region& region) {
    for (auto& parameter : parameters_) parameter.mutable_grad().zero_();
    const profile::MemoryMeter meter(c10::kCPU);
    region.run([&] { return forward(); }).backward();
    return meter.measured_peak_bytes();
  }

  [[nodiscard]] std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> all;
    for (const auto& parameter : parameters_) all.push_back(parameter.grad().clone());
    return all;
  }

 private:
  at::Tensor input_;
  std::vector<nn::Linear> linears_;
  std::vector<at::Tensor> parameters_;
};

struct WarningLog : c10::WarningHandler {
  void process(const c10::Warning& warning) override { messages.push_back(warning.msg()); }
  std::vector<std::string> messages;
};

// What a region with `options` learns in one step of the chain.
Region after_one_step(Chain& chain, const Options& options) {
  Region region(options);
  chain.step(region);
  return region;
}

std::shared_ptr<const plan::Plan> shared(plan::Plan plan) {
  return std::make_shared<const plan::Plan>(std::move(plan));
}

class GivenPlan : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { profile::install_cpu_counter(); }
  Chain chain_;
};

TEST_F(GivenPlan, IsFollowedWithFiguresPredictedAnew) {
  const Region maker = after_one_step(chain_, {.policy = "every_3"});
  auto given = maker.plan();
  given.predicted_peak_bytes = 1;
  given.num_replayed_ops = 1;
  Region region({.plan = shared(given)});
  chain_.step(region);
  EXPECT_EQ(chain_.step(region), region.plan().predicted_peak_bytes);
  EXPECT_TRUE(region.last_step().followed_plan);
  EXPECT_EQ(region.plan().keep, maker.plan().keep);
  EXPECT_EQ(region.plan().policy, "every_3");
  EXPECT_EQ(region.plan().predicted_peak_bytes, maker.plan().predicted_peak_bytes);
  EXPECT_EQ(region.last_step().num_replayed_ops, maker.plan().num_replayed_ops);
}

TEST_F(GivenPlan, OfAnotherSequenceIsNamedOnceAndTheBudgetPlans) {
  auto given = after_one_step(chain_, {.policy = "drop_all"}).plan();
  const auto signature = given.signature++;
  WarningLog log;
  const c10::WarningUtils::WarningHandlerGuard guard(&log);
  Region region({.max_overhead = 0.1,
                 .plan = shared(given),
                 .verify = Verify::every_n_steps,
                 .verify_interval_steps = 1});
  chain_.step(region);
  chain_.step(region);
  EXPECT_EQ(region.plan().policy, "max_overhead");
  ASSERT_EQ(log.messages.size(), 1U);
  EXPECT_THAT(log.messages[0], HasSubstr(std::to_string(signature)));
  EXPECT_THAT(log.messages[0], HasSubstr(std::to_string(signature + 1)));
}

TEST_F(GivenPlan, ThatDoesNotFitItsSequenceIsRefused) {
  auto given = after_one_step(chain_, {.policy = "drop_all"}).plan();
  given.keep.push_back(1);
  Region region({.plan = shared(given)});
  try {
    chain_.step(region);
    FAIL() << "no exception";
  } catch (const c10::ValueError& error) {
    EXPECT_THAT(error.what(), HasSubstr("Options::plan does not fit"));
    EXPECT_THAT(error.what(), HasSubstr("keep.size() is"));
  }
  EXPECT_FALSE(region.has_plan());
}

}  // namespace
}  // namespace gradrecomp::test
