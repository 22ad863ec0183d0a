// Convolutions that find no memory for their workspaces, and so choose another algorithm.
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <memory>
#include <string_view>
#include <utility>

#include "devices/dropping_steps.h"
#include "devices/on_device.h"
#include "gradrecomp/device/allocations.h"
#include "support/messages.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

using ::testing::HasSubstr;

/// While it lives, convolutions find no memory for their workspaces.
class Shortage {
 public:
  Shortage() : callback_(at::addGlobalCallback(at::RecordFunctionCallback(&meet_convolution))) {}
  ~Shortage() { at::removeCallback(callback_); }
  Shortage(const Shortage&) = delete;
  Shortage& operator=(const Shortage&) = delete;

 private:
  static std::unique_ptr<at::ObserverContext> meet_convolution(const at::RecordFunction& call) {
    if (std::string_view(call.name()) == "aten::convolution_overrideable")
      device::report_shortage();
    return nullptr;
  }
  at::CallbackHandle callback_;
};

class Shortages : public ::testing::Test {
 protected:
  at::Tensor x_ = on_device(torch::randn({1, 2, 6, 6})).requires_grad_();
  at::Tensor weight_ = on_device(torch::randn({3, 2, 3, 3}));
  Steps::Forward forward_ = [this](const at::Tensor& input) {
    return torch::conv2d(input.exp(), weight_).sin();
  };
  Steps steps_{forward_};
  at::Tensor expected_ = steps_.plain(x_);

  void expect_right_steps(int count) {
    for (int i = 0; i < count; ++i) EXPECT_TRUE(same_bits(expected_, steps_.step(x_))) << i;
  }
};

TEST_F(Shortages, OfWorkspaceInTheForwardPassKeepsWhatWasMadeAndVerifiesAnew) {
  expect_right_steps(2);
  const auto usually = steps_.region.last_step();
  ASSERT_TRUE(usually.followed_plan);
  {
    const Shortage shortage;
    const auto y = steps_.region.run([&] { return forward_(x_); });
    y.sum().backward();
    EXPECT_TRUE(same_bits(expected_, std::exchange(x_.mutable_grad(), at::Tensor())));
    EXPECT_LT(steps_.region.last_step().num_replayed_ops, usually.num_replayed_ops);
  }
  expect_right_steps(3);
  EXPECT_EQ(steps_.region.num_plans(), 2);
  EXPECT_EQ(steps_.region.last_step().num_replayed_ops, usually.num_replayed_ops);
}

TEST_F(Shortages, OfWorkspaceInAReplayAreAnErrorOfThatBackwardAlone) {
  expect_right_steps(2);
  const auto y = steps_.region.run([&] { return forward_(x_); });
  {
    const Shortage shortage;
    EXPECT_THAT(message_of([&] { y.sum().backward(); }),
                HasSubstr("found no memory for its workspace in a replay"));
  }
  EXPECT_FALSE(x_.grad().defined());
  expect_right_steps(4);
  EXPECT_TRUE(steps_.region.last_step().followed_plan);
}

}  // namespace
}  // namespace gradrecomp::test
