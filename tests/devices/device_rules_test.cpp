// What is special to devices other than the CPU: their streams beside the host's memory, and
// kernels of ours that they may lack.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <memory>
#include <tuple>
#include <vector>

#include "devices/dropping_steps.h"
#include "devices/on_device.h"
#include "gradrecomp/kernels/table.h"
#include "support/host_device/host_device.h"
#include "support/messages.h"
#include "support/training.h"
#include "tape/record/recorder.h"
#include "tape/tape.h"

namespace gradrecomp::test {
namespace {

using ::testing::HasSubstr;

/// A number of the CPU beside a tensor of the device.
TEST(DeviceRules, CopiesFromTheHostBelongToTheStreamOfTheDevice) {
  const auto on_host = torch::randn({8});
  const auto x = on_device(on_host).requires_grad_();
  const auto tape = std::make_shared<tape::Tape>();
  {
    const tape::Recorder recorder(tape, {});
    const auto there = on_host.to(kHostDevice);
    const auto back = (x * there).to(torch::kCPU);
    const auto stays = (back * on_host).to(torch::kDouble);
  }
  std::vector<bool> has_stream;
  for (const auto& op : tape->ops()) has_stream.push_back(op.stream().has_value());
  EXPECT_THAT(has_stream, ::testing::ElementsAre(true, true, true, false, false));
}

TEST(DeviceRules, NumbersOfTheCpuBesideItsTensorsAreReplayedOnItsStream) {
  const auto x = on_device(torch::randn({8})).requires_grad_();
  const auto number = torch::tensor(1.3F);
  EXPECT_EQ(replays_of([&](const at::Tensor& input) { return (number * input.exp()).sin(); }, x),
            2);
}

TEST(DeviceRules, AKernelThatFailsInTheForwardPassDoesNotEndIt) {
  constexpr kernels::Table kFailing{
      .pack_mask = [](const kernels::PackMask&,
                      kernels::Stream) { TORCH_CHECK(false, "no image for this card"); },
      .unpack_mask = [](const kernels::UnpackMask&, kernels::Stream) {}};
  kernels::register_table(c10::kPrivateUse1, &kFailing);
  const WarningLog warnings;
  const auto x = on_device(torch::randn({64})).requires_grad_();
  Steps steps([](const at::Tensor& input) {
    torch::manual_seed(3);
    return std::get<0>(torch::native_dropout(input.exp(), 0.5, true)).sin();
  });
  const auto expected = steps.plain(x);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(expected, steps.step(x))) << i;
  kernels::register_table(c10::kPrivateUse1, nullptr);
  EXPECT_THAT(warnings.text(), HasSubstr("stops using its own kernels"));
}

}  // namespace
}  // namespace gradrecomp::test
