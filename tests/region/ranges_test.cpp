// What profilers are told of a region.
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "gradrecomp/region.h"

namespace gradrecomp::test {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> scopes;  // callbacks are plain functions

std::unique_ptr<at::ObserverContext> note(const at::RecordFunction& function) {
  scopes.emplace_back(function.name());
  return nullptr;
}

/// Notes the user scopes that begin on any thread while it lives.
class Watch {
 public:
  Watch() { scopes.clear(); }
  ~Watch() { at::removeCallback(handle_); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  at::CallbackHandle handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(&note).scopes({at::RecordScope::USER_SCOPE}));
};

TEST(Ranges, NameStagesAndReplays) {
  at::Tensor x = torch::randn({4}).requires_grad_();
  x.mutable_grad() = torch::zeros_like(x);  // so that the second step has the plan of the first
  Region region({.policy = "drop_all"});
  const auto step = [&] {
    region
        .run([&] {
          begin_stage("first");
          const at::Tensor y = x.exp();
          begin_stage("second");
          return y.tanh().sin();
        })
        .sum()
        .backward();
  };
  step();
  const Watch watch;
  step();
  EXPECT_THAT(scopes, ElementsAre("GradRecomp: first", "GradRecomp: second",
                                  "GradRecomp: replay up to aten::tanh"));
}

}  // namespace
}  // namespace gradrecomp::test
