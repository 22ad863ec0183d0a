#include "tape/geometry/geometries.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <torch/torch.h>

#include <memory>
#include <set>
#include <utility>

#include "tape/record/recorder.h"

namespace gradrecomp::tape {
namespace {

TEST(Geometries, KeepsEqualOnesOnce) {
  Geometries geometries;
  const auto x = torch::randn({4, 6});
  const Geometry* first = geometries.of(x);
  EXPECT_NE(geometries.of(torch::randn({6, 4})), first);
  EXPECT_EQ(geometries.of(torch::randn({4, 6})), first);
  EXPECT_EQ(geometries.of(x), first);
  EXPECT_EQ(first->sizes(), x.sizes());
}

TEST(Geometries, TellsApartWhatAReplayHasToSeeAgain) {
  Geometries geometries;
  const auto x = torch::randn({4, 4});
  const auto number = torch::ones({}, torch::kDouble);
  auto wrapped = number.clone();
  wrapped.unsafeGetTensorImpl()->set_wrapped_number(true);
  const auto complex = torch::randn({4, 4}, torch::kComplexFloat);
  const std::vector<at::Tensor> tensors = {
      x,      x.t(),   x.slice(0, 0, 2), x.slice(0, 2, 4), x.to(torch::kDouble),
      number, wrapped, complex,          complex.conj(),   torch::imag(complex.conj())};
  std::set<const Geometry*> kept;
  for (int round = 0; round < 2; ++round) {
    for (const auto& tensor : tensors) kept.insert(geometries.of(tensor));
  }
  EXPECT_EQ(kept.size(), tensors.size());
}

// Between forward and backward, beside what autograd and the tensors take anyway.
TEST(Geometries, LeaveATapeTwoHundredBytesAnOp) {
  constexpr int kOps = 1000;
  const auto x = torch::randn({1}).requires_grad_();
  const auto chain = [&] {
    at::Tensor y = x;
    for (int i = 0; i < kOps; ++i) y = y.sin();
    return y;
  };
  const auto recorded = [&] {
    auto tape = std::make_shared<Tape>();
    const auto keep = std::make_shared<const Retentions>(kOps + 1, Retention::keep);
    at::Tensor y;
    {
      const Recorder recorder(tape, {nullptr, keep});
      y = chain();
    }
    tape->seal();
    return std::pair(std::move(tape), std::move(y));
  };
  const auto heap_bytes = [](const auto& run) {
    const auto before = mallinfo2().uordblks;
    const auto living = run();
    return static_cast<std::int64_t>(mallinfo2().uordblks - before);
  };
  recorded();  // what is made once
  const std::int64_t plain = heap_bytes(chain);
  if (plain == 0) GTEST_SKIP() << "the allocator of a sanitizer does not count";
  EXPECT_LE(heap_bytes(recorded) - plain, 200 * kOps);
}

}  // namespace
}  // namespace gradrecomp::tape
