#include "tape/record/tape_bytes.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <torch/torch.h>

#include <functional>
#include <utility>

#include "tape/record/recorder.h"

namespace gradrecomp::tape {
namespace {

constexpr int kOps = 2000;

/// Of blocks in use, as malloc counts them, while what `run` returns lives.
template <typename Run>
std::int64_t heap_of(const Run& run) {
  run();  // what stays for good
  const auto before = mallinfo2().uordblks;
  const auto living = run();
  return static_cast<std::int64_t>(mallinfo2().uordblks - before);
}

using Body = std::function<at::Tensor()>;

struct Recorded {
  std::shared_ptr<Tape> tape = std::make_shared<Tape>();
  at::Tensor result;
};

Recorded record(const Body& body, Retention retention) {
  Recorded recorded;
  const auto all = std::make_shared<const Retentions>(2 * kOps, retention);
  {
    const Recorder recorder(recorded.tape, {nullptr, all});
    recorded.result = body();
  }
  recorded.tape->seal();
  return recorded;
}

/// That recording adds to what a plain step has on the heap.
void expect_counted(const Body& body, Retention retention) {
  const std::int64_t plain = heap_of(body);
  if (plain == 0) GTEST_SKIP() << "the allocator of a sanitizer does not count";
  const std::int64_t recorded = heap_of([&] { return record(body, retention); });
  const auto counted = static_cast<double>(bytes_of(*record(body, retention).tape));
  const auto added = static_cast<double>(recorded - plain);
  EXPECT_NEAR(counted, added, 0.1 * added);
}

TEST(TapeBytes, AreWhatRecordingAddsToTheHeap) {
  const auto x = torch::randn({1}).requires_grad_();
  const auto chain = [&] {
    at::Tensor y = x;
    for (int i = 0; i < kOps; ++i) y = y.sin();
    return y;
  };
  expect_counted(chain, Retention::keep);
}

// Their arguments stay until replays are done.
TEST(TapeBytes, CountTheArgumentsOfOpsThatMayRunAgain) {
  const auto x = torch::randn({1}).requires_grad_();
  const auto chain = [&] {
    at::Tensor y = x;
    for (int i = 0; i < kOps; ++i) y = at::softmax(y, 0);
    return y;
  };
  const auto kept = bytes_of(*record(chain, Retention::keep).tape);
  const auto dropped = bytes_of(*record(chain, Retention::drop).tape);
  EXPECT_GT(dropped, kept + kOps * static_cast<std::int64_t>(sizeof(c10::IValue)));
}

}  // namespace
}  // namespace gradrecomp::tape
