// The device of host memory itself: what does not wait on an asynchronous one gets wrong bits, and
// what waits gets the right ones.
#include "support/host_device/host_device.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>
#include <thread>
#include <vector>

#include "devices/streams.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

constexpr std::uint64_t kLazy = 0;

at::Tensor ones(c10::Device device = kHostDevice) { return torch::ones({64}, device); }

float first_of(const at::Tensor& tensor) { return tensor.cpu()[0].item<float>(); }

// What is there now, whether work is to come or not.
float first_in_memory(const at::Tensor& tensor) {
  return *static_cast<const float*>(tensor.const_data_ptr());
}

/// Fills a tensor on the main stream and doubles it on another, which waits or does not.
float doubled_on_side(bool waits) {
  const auto x = ones();
  devices().synchronizeDevice(0);
  const auto y = x + 2;
  const auto side = side_stream();
  if (waits) wait_for(main_stream(), side);
  const c10::StreamGuard guard(side);
  return first_of(y * 2);
}

TEST(HostDevice, WorkIsDoneAtOnceWithoutAMode) {
  EXPECT_EQ(first_in_memory(ones() + 1), 2);
  EXPECT_EQ(doubled_on_side(false), 6);
}

TEST(HostDevice, WorkIsNotDoneBeforeTheHostWaits) {
  const AsynchronousDevice mode(kLazy);
  const auto y = ones() + 1;
  EXPECT_NE(first_in_memory(y), 2);
  devices().synchronizeStream(main_stream());
  EXPECT_EQ(first_in_memory(y), 2);
}

TEST(HostDevice, ModeEndsWhenAllIsDone) {
  at::Tensor y;
  {
    const AsynchronousDevice mode(kLazy);
    y = ones() + 1;
  }
  EXPECT_EQ(first_in_memory(y), 2);
}

TEST(HostDevice, MissingWaitGivesWrongBits) {
  const AsynchronousDevice mode(kLazy);
  EXPECT_NE(doubled_on_side(false), 6);
}

TEST(HostDevice, WaitGivesRightBitsUnderEverySeed) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const AsynchronousDevice mode(seed);
    EXPECT_EQ(doubled_on_side(true), 6) << "seed " << seed;
  }
}

TEST(HostDevice, SeedsTryBothOrders) {
  std::set<bool> right;
  for (std::uint64_t seed = 1; seed < 30; ++seed) {
    const AsynchronousDevice mode(seed);
    right.insert(doubled_on_side(false) == 6);
  }
  EXPECT_EQ(right.size(), 2U);
}

/// A tensor is written on the main stream while another stream still reads it.
float read_beside_a_write(bool waits) {
  auto x = ones();
  devices().synchronizeDevice(0);
  const auto side = side_stream();
  at::Tensor y;
  {
    const c10::StreamGuard guard(side);
    y = x * 2;
  }
  if (waits) wait_for(side, main_stream());
  x.fill_(7);
  devices().synchronizeStream(main_stream());
  const c10::StreamGuard guard(side);
  return first_of(y);
}

TEST(HostDevice, WriteBeforeALateReadShows) {
  const AsynchronousDevice mode(kLazy);
  EXPECT_EQ(read_beside_a_write(false), 14);
  EXPECT_EQ(read_beside_a_write(true), 2);
}

/// A tensor is freed while another stream still reads it, and its memory is used again.
float read_beside_a_free(bool records) {
  auto x = ones();
  devices().synchronizeDevice(0);
  const auto side = side_stream();
  at::Tensor y;
  {
    const c10::StreamGuard guard(side);
    y = x * 2;
  }
  if (records) x.record_stream(side);
  x.reset();
  const auto other = torch::full({64}, 5.0F, kHostDevice);
  devices().synchronizeStream(main_stream());
  const c10::StreamGuard guard(side);
  return first_of(y);
}

TEST(HostDevice, EarlyFreeAcrossStreamsShows) {
  const AsynchronousDevice mode(kLazy);
  EXPECT_EQ(read_beside_a_free(false), 10);
}

TEST(HostDevice, RecordStreamCuresAnEarlyFree) {
  const AsynchronousDevice mode(kLazy);
  EXPECT_EQ(read_beside_a_free(true), 2);
}

TEST(HostDevice, EarlyFreeShowsInAnAllocationOfAnotherSizeToo) {
  const AsynchronousDevice mode(kLazy);
  auto x = ones();
  devices().synchronizeDevice(0);
  const auto side = side_stream();
  at::Tensor y;
  {
    const c10::StreamGuard guard(side);
    y = x * 2;
  }
  x.reset();
  const auto other = torch::empty({4096}, kHostDevice);
  devices().synchronizeStream(main_stream());
  const c10::StreamGuard guard(side);
  EXPECT_NE(first_of(y), 2);
}

TEST(HostDevice, FreedMemoryIsThatOfItsStream) {
  const AsynchronousDevice mode(kLazy);
  auto x = ones();
  const void* memory = x.const_data_ptr();
  x.reset();
  {
    const c10::StreamGuard guard(side_stream());
    EXPECT_NE(ones().const_data_ptr(), memory);
  }
  EXPECT_EQ(ones().const_data_ptr(), memory);
}

TEST(HostDevice, StatisticsCountWhatIsRequestedAllocatedAndReserved) {
  const AsynchronousDevice mode(kLazy);
  const auto stats = [] { return at::getDeviceAllocator(c10::kPrivateUse1)->getDeviceStats(0); };
  const auto before = stats();
  auto x = torch::empty({100}, kHostDevice);
  const auto with = stats();
  x.reset();
  const auto after = stats();
  EXPECT_EQ(with.requested_bytes[0].current - before.requested_bytes[0].current, 400);
  EXPECT_EQ(with.allocated_bytes[0].current - before.allocated_bytes[0].current, 512);
  EXPECT_EQ(with.reserved_bytes[0].current - before.reserved_bytes[0].current, 512);
  EXPECT_EQ(after.requested_bytes[0].current, before.requested_bytes[0].current);
  EXPECT_EQ(after.allocated_bytes[0].current, before.allocated_bytes[0].current);
  EXPECT_EQ(after.reserved_bytes[0].current, with.reserved_bytes[0].current);
}

at::Tensor pinned_zeros() {
  return torch::empty({64}, torch::TensorOptions().pinned_memory(true)).zero_();
}

TEST(HostDevice, CopyToPinnedMemoryIsThereBehindItsEvent) {
  const AsynchronousDevice mode(kLazy);
  auto host = pinned_zeros();
  EXPECT_TRUE(host.is_pinned());
  host.copy_(ones() + 1, /*non_blocking=*/true);
  c10::Event end(c10::kPrivateUse1);
  end.record(main_stream());
  EXPECT_EQ(host[0].item<float>(), 0);
  end.synchronize();
  EXPECT_EQ(host[0].item<float>(), 2);
}

TEST(HostDevice, CopyFromPinnedMemoryReadsWhenItsTurnHasCome) {
  const AsynchronousDevice mode(kLazy);
  auto host = pinned_zeros();
  const auto x = host.to(kHostDevice, /*non_blocking=*/true);
  host.fill_(3);
  EXPECT_EQ(first_of(x), 3);
}

TEST(HostDevice, CopyFromPageableMemoryReadsAtOnce) {
  const AsynchronousDevice mode(kLazy);
  auto host = torch::zeros({64});
  const auto x = host.to(kHostDevice, /*non_blocking=*/true);
  host.fill_(3);
  EXPECT_EQ(first_of(x), 0);
}

TEST(HostDevice, FreedPinnedMemoryStaysUntilItIsRead) {
  const AsynchronousDevice mode(kLazy);
  const auto x = pinned_zeros().to(kHostDevice, /*non_blocking=*/true);
  const auto other = pinned_zeros().fill_(3);
  EXPECT_EQ(first_of(x), 0);
}

TEST(HostDevice, EventTellsWhetherItIsOver) {
  const AsynchronousDevice mode(kLazy);
  const auto y = ones() + 1;
  c10::Event event(c10::kPrivateUse1);
  event.record(main_stream());
  EXPECT_FALSE(event.query());
  while (!event.query()) continue;  // who asks again and again gets there
  EXPECT_EQ(first_in_memory(y), 2);
}

c10::Event timed_event(c10::Device device) {
  c10::Event event(c10::kPrivateUse1, c10::EventFlag::BACKEND_DEFAULT);
  event.record(main_stream(device));
  event.synchronize();
  return event;
}

TEST(HostDevice, EventsKeepTime) {
  const AsynchronousDevice mode(kLazy);
  const auto from = timed_event(kHostDevice);
  const auto to = timed_event(kHostDevice);
  EXPECT_GE(from.elapsedTime(to), 0);
}

TEST(HostDevice, TimeBetweenEventsOfTwoDevicesIsRefused) {
  const AsynchronousDevice mode(kLazy);
  const auto from = timed_event(kHostDevice);
  const auto to = timed_event(kOtherHostDevice);
  EXPECT_ANY_THROW(static_cast<void>(from.elapsedTime(to)));
}

TEST(HostDevice, TwoDevicesHaveStreamsAndMemoryOfTheirOwn) {
  const AsynchronousDevice mode(kLazy);
  const auto bytes = [](c10::DeviceIndex device) {
    const auto stats = at::getDeviceAllocator(c10::kPrivateUse1)->getDeviceStats(device);
    return stats.requested_bytes[0].current;
  };
  const auto before = std::pair(bytes(0), bytes(1));
  const auto x = ones(kOtherHostDevice);
  EXPECT_EQ(std::pair(bytes(0), bytes(1)), std::pair(before.first, before.second + 256));
  const auto y = x + 1;
  EXPECT_EQ(y.device(), kOtherHostDevice);
  devices().synchronizeDevice(0);
  EXPECT_NE(first_in_memory(y), 2);
  devices().synchronizeDevice(1);
  EXPECT_EQ(first_in_memory(y), 2);
}

TEST(HostDevice, CopyBetweenDevicesWaitsForBoth) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const AsynchronousDevice mode(seed);
    const auto x = ones() + 1;
    const auto y = x.to(kOtherHostDevice) * 2;
    EXPECT_EQ(first_of(y.to(kHostDevice) + 1), 5) << "seed " << seed;
  }
}

TEST(HostDevice, TensorsOfTwoDevicesDoNotMix) {
  const AsynchronousDevice mode(kLazy);
  EXPECT_ANY_THROW(ones() + ones(kOtherHostDevice));
}

TEST(HostDevice, PresentDeviceIsThatOfTheThread) {
  const c10::DeviceGuard guard(kOtherHostDevice);
  EXPECT_EQ(torch::empty({1}, c10::kPrivateUse1).device(), kOtherHostDevice);
  std::thread([] { EXPECT_EQ(torch::empty({1}, c10::kPrivateUse1).device(), kHostDevice); }).join();
}

/// Bits of many kinds of operators, in the order of the program.
Tensors many_results() {
  torch::manual_seed(3);
  auto x = torch::randn({4, 6}, kHostDevice);
  Tensors results;
  results.push_back(torch::dropout(x, 0.4, true));
  results.push_back(torch::rand({5}, kHostDevice));
  results.push_back(x.index({x > 0}));
  results.push_back(std::get<0>(x.sort(-1)));
  results.push_back(torch::layer_norm(x, {6}));
  results.push_back(torch::cat({x, x.t().reshape({4, 6})}));
  results.push_back(torch::randperm(7, kHostDevice));
  results.push_back(torch::bernoulli(x.sigmoid()));
  results.push_back(torch::complex(x, x.tanh()).conj().clone());
  results.push_back(torch::imag(torch::complex(x, x.tanh()).conj()).clone());
  x.mul_(x).add_(1).select(0, 1).zero_();
  results.push_back(x);
  results.push_back(torch::tanh_out(x, x));
  for (auto& result : results) result = result.cpu();
  results.push_back(random_state());
  return results;
}

TEST(HostDevice, GivesTheBitsOfASynchronousOneUnderEverySeed) {
  const auto expected = many_results();
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const AsynchronousDevice mode(seed);
    SCOPED_TRACE(seed);
    expect_same_bits(expected, many_results());
  }
}

TEST(HostDevice, ErrorsOfWorkAreThrownWhereTheHostWaits) {
  const AsynchronousDevice mode(kLazy);
  const auto indices = torch::full({2}, 70, torch::TensorOptions(torch::kLong).device(kHostDevice));
  const auto chosen = ones().index_select(0, indices);
  EXPECT_ANY_THROW(devices().synchronizeDevice(0));
}

at::Tensor convolved() {
  torch::manual_seed(1);
  const auto x = torch::randn({2, 8, 9, 9}).to(kHostDevice);
  const auto weight = torch::randn({8, 8, 3, 3}).to(kHostDevice);
  return torch::conv2d(x, weight).cpu();
}

at::Tensor convolved_on_another_thread() {
  at::Tensor result;
  std::thread([&] { result = convolved(); }).join();
  return result;
}

TEST(HostDevice, AlgorithmsAreChosenByThread) {
  const AlgorithmsByThread algorithms;
  const auto first = convolved();
  const auto other = convolved_on_another_thread();
  EXPECT_TRUE(same_bits(first, convolved()));
  EXPECT_FALSE(same_bits(first, other));
  EXPECT_TRUE(torch::allclose(first, other, 1e-4, 1e-5));
}

TEST(HostDevice, AlgorithmsAreChosenByThreadOfAnAsynchronousOne) {
  const AlgorithmsByThread algorithms;
  const AsynchronousDevice mode(kLazy);
  const auto first = convolved();
  EXPECT_TRUE(same_bits(first, convolved()));
  EXPECT_FALSE(same_bits(first, convolved_on_another_thread()));
}

TEST(HostDevice, OtherwiseThereIsOneAlgorithm) {
  EXPECT_TRUE(same_bits(convolved(), convolved_on_another_thread()));
}

}  // namespace
}  // namespace gradrecomp::test
