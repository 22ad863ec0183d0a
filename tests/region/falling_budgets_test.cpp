// Conformance M3 along the whole range of budgets: what a plan promises, a real step keeps.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>

#include "gradrecomp/memory_meter.h"
#include "gradrecomp/models/bert.h"
#include "gradrecomp/models/resnet.h"
#include "gradrecomp/models/vit.h"
#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/region.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

constexpr int kNumBudgets = 20;
constexpr int kNumOverheads = 8;  // these plans take longest to find

// Counts FLOPs, so that no plan depends on what a clock said.
constexpr auto kCost = plan::CostModel::flops;

// One training step of a model, in a region or plain, always from the same random state.
class Subject {
 public:
  template <typename Model>
  Subject(Model model, at::Tensor input) : module_(model.ptr()), stages_(model->stages()) {
    input_ = std::move(input);
    for (auto& parameter : module_->parameters()) {
      parameter.mutable_grad() = torch::zeros_like(parameter);
    }
    Region region({.policy = "keep_all"});
    step(&region);
    graph_ = region.graph();
    plain_peak_bytes_ = step(nullptr);
    plain_gradients_ = gradients();
  }

  // Returns the measured activation peak.
  std::int64_t step(Region* region) {
    for (auto& parameter : module_->parameters()) parameter.mutable_grad().zero_();
    torch::manual_seed(2);
    const MemoryMeter meter(c10::kCPU);
    auto output = region != nullptr ? region->run([&] { return forward(); }) : forward();
    output.pow(2).sum().backward();
    return meter.measured_peak_bytes();
  }

  [[nodiscard]] bool has_plain_gradients() const {
    const auto now = gradients();
    return std::equal(now.begin(), now.end(), plain_gradients_.begin(), plain_gradients_.end(),
                      same_bits);
  }

  [[nodiscard]] const plan::Graph& graph() const { return graph_; }
  [[nodiscard]] std::int64_t plain_peak_bytes() const { return plain_peak_bytes_; }

 private:
  at::Tensor forward() {
    at::Tensor x = input_;
    for (const auto& stage : stages_) {
      begin_stage(stage.name);
      x = stage.forward(x);
    }
    return x;
  }

  [[nodiscard]] std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> all;
    for (const auto& parameter : module_->parameters()) all.push_back(parameter.grad().clone());
    return all;
  }

  std::shared_ptr<torch::nn::Module> module_;
  std::vector<models::Stage> stages_;
  at::Tensor input_;
  plan::Graph graph_;
  std::int64_t plain_peak_bytes_ = 0;
  std::vector<at::Tensor> plain_gradients_;
};

// Takes a real step under `plan` and returns its peak.
std::int64_t expect_kept(Subject& subject, const plan::Plan& plan) {
  Region region({.plan = std::make_shared<const plan::Plan>(plan)});
  subject.step(&region);
  EXPECT_TRUE(subject.has_plain_gradients()) << "profiled step";
  const auto measured = subject.step(&region);
  EXPECT_TRUE(region.last_step().followed_plan);
  EXPECT_TRUE(subject.has_plain_gradients());
  EXPECT_EQ(measured, plan.predicted_peak_bytes);
  EXPECT_EQ(region.last_step().num_replayed_ops, plan.num_replayed_ops);
  return measured;
}

plan::Plan least_peak_plan(const Subject& subject) {
  return plan::make_plan(subject.graph(), {.max_peak_bytes = 1, .cost = kCost});
}

// From the plain peak down to the least one that any plan reaches, and one budget below that.
void expect_falling_bytes(Subject subject) {
  const auto least = least_peak_plan(subject).predicted_peak_bytes;
  const auto most = subject.plain_peak_bytes();
  std::int64_t last = most;
  int num_nested = 0;
  for (int i = 0; i < kNumBudgets; ++i) {
    const std::int64_t budget = most - (most - least) * i / (kNumBudgets - 2);
    SCOPED_TRACE("max_peak_bytes " + std::to_string(budget));
    const auto plan = plan::make_plan(subject.graph(), {.max_peak_bytes = budget, .cost = kCost});
    EXPECT_EQ(plan.feasible, i + 1 < kNumBudgets);
    const auto measured = expect_kept(subject, plan);
    EXPECT_LE(measured, plan.feasible ? budget : least);
    EXPECT_LE(measured, last);
    last = measured;
    num_nested += !plan.sweeps.empty();
  }
  EXPECT_GT(num_nested, 0) << "low budgets need plans that make values more than once";
}

// From the overhead at which the least peak is reached down to 0.
void expect_falling_overheads(Subject subject) {
  const double most = least_peak_plan(subject).predicted_overhead_flops;
  std::int64_t last = 0;
  int num_nested = 0;
  for (int i = 0; i < kNumOverheads; ++i) {
    const double budget = most * (kNumOverheads - 1 - i) / (kNumOverheads - 1);
    SCOPED_TRACE("max_overhead " + std::to_string(budget));
    const auto plan = plan::make_plan(subject.graph(), {.max_overhead = budget, .cost = kCost});
    const auto measured = expect_kept(subject, plan);
    EXPECT_LE(plan.predicted_overhead_flops, budget);
    EXPECT_GE(measured, last);
    last = measured;
    num_nested += !plan.sweeps.empty();
  }
  EXPECT_LE(last, subject.plain_peak_bytes());
  EXPECT_GT(num_nested, 0);
}

class FallingBudgets : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { install_cpu_counter(); }
  void SetUp() override { torch::manual_seed(1); }
};

Subject resnet() { return {models::resnet18(10), torch::randn({2, 3, 64, 64})}; }

Subject bert() {
  const models::BertOptions options{.vocab_size = 50,
                                    .hidden_size = 64,
                                    .num_layers = 3,
                                    .num_heads = 2,
                                    .intermediate_size = 256,
                                    .max_positions = 32};
  return {models::BertModel(options), torch::randint(0, 50, {2, 32})};
}

Subject vit() {
  const models::ViTOptions options{.image_size = 64,
                                   .patch_size = 8,
                                   .num_layers = 3,
                                   .num_heads = 2,
                                   .hidden_size = 64,
                                   .mlp_size = 256,
                                   .num_classes = 10,
                                   .dropout = 0.1,
                                   .zero_head = false};
  return {models::ViT(options), torch::randn({2, 3, 64, 64})};
}

TEST_F(FallingBudgets, OfBytesAreKeptByAResNet) { expect_falling_bytes(resnet()); }
TEST_F(FallingBudgets, OfBytesAreKeptByABert) { expect_falling_bytes(bert()); }
TEST_F(FallingBudgets, OfBytesAreKeptByAViT) { expect_falling_bytes(vit()); }
TEST_F(FallingBudgets, OfOverheadAreKeptByAResNet) { expect_falling_overheads(resnet()); }
TEST_F(FallingBudgets, OfOverheadAreKeptByABert) { expect_falling_overheads(bert()); }
TEST_F(FallingBudgets, OfOverheadAreKeptByAViT) { expect_falling_overheads(vit()); }

}  // namespace
}  // namespace gradrecomp::test
