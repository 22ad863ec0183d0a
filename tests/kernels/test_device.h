#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>

#include "gradrecomp/kernels/table.h"

namespace gradrecomp::kernels {

/// Where a suite runs. The program names its devices when it instantiates the suites.
struct TestDevice {
  c10::DeviceType type = c10::kCPU;
  /// Why nothing can run here; empty if it can.
  std::function<std::string()> missing = [] { return std::string(); };
};

inline void PrintTo(const TestDevice& device, std::ostream* out) { *out << device.type; }

class DeviceSuite : public ::testing::TestWithParam<TestDevice> {
 protected:
  void SetUp() override {
    const std::string reason = GetParam().missing();
    if (!reason.empty()) GTEST_SKIP() << reason;
    torch::manual_seed(1);
  }

  [[nodiscard]] c10::Device device() const { return {GetParam().type, c10::DeviceIndex(0)}; }
  [[nodiscard]] const Table& kernels() const { return *table(GetParam().type); }
  [[nodiscard]] Stream stream() const {
    if (device().is_cpu()) return nullptr;
    const c10::impl::VirtualGuardImpl guard(device().type());
    return guard.getStream(device()).native_handle();
  }
  [[nodiscard]] torch::Tensor on_device(const torch::Tensor& x) const { return x.to(device()); }
};

/// Equal bit for bit.
inline ::testing::AssertionResult same_bytes(const torch::Tensor& a, const torch::Tensor& b) {
  if (a.sizes() != b.sizes()) return ::testing::AssertionFailure() << "other sizes";
  const auto bytes = [](const torch::Tensor& x) {
    return x.cpu().contiguous().view(-1).view(torch::kByte);
  };
  if (bytes(a).equal(bytes(b))) return ::testing::AssertionSuccess();
  const auto differ = (a != b).sum().item<std::int64_t>();
  return ::testing::AssertionFailure()
         << differ << " of " << a.numel() << " elements differ, by at most "
         << (a.to(torch::kDouble) - b.to(torch::kDouble)).abs().max().item<double>();
}

/// A copy whose data begins one element after an aligned address.
inline torch::Tensor misaligned(const torch::Tensor& x) {
  const auto memory = torch::empty({x.numel() + 1}, x.options());
  auto copy = memory.narrow(0, 1, x.numel()).as_strided(x.sizes(), x.strides(), 1);
  return copy.copy_(x);
}

inline const void* data_of(const torch::Tensor& x) { return x.defined() ? x.data_ptr() : nullptr; }

}  // namespace gradrecomp::kernels
