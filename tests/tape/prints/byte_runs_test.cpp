// Which bytes of a storage a view shows.
#include "tape/prints/byte_runs.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <random>
#include <vector>

namespace gradrecomp::tape {
namespace {

using Bytes = std::vector<bool>;

Bytes shown_by(const at::Tensor& view) {
  auto bytes = torch::zeros({static_cast<std::int64_t>(view.storage().nbytes())}, torch::kByte);
  auto twin = torch::empty({0}, view.options());
  twin.set_(bytes.storage(), view.storage_offset(), view.sizes(), view.strides());
  twin.copy_(twin.bitwise_not());
  const auto* data = bytes.const_data_ptr<std::uint8_t>();
  Bytes shown(bytes.numel());
  std::transform(data, data + bytes.numel(), shown.begin(), [](auto byte) { return byte != 0; });
  return shown;
}

Bytes visited(const ByteRuns& runs, std::size_t num_bytes) {
  Bytes bytes(num_bytes);
  EXPECT_TRUE(runs.all_of([&](Extent run) {
    std::fill(bytes.begin() + run.begin, bytes.begin() + run.end, true);
    return true;
  }));
  return bytes;
}

at::Tensor random_view(std::mt19937& random) {
  const auto up_to = [&](std::int64_t most) {
    return 1 + static_cast<std::int64_t>(random()) % most;
  };
  const auto type = random() % 2 == 0 ? torch::kInt : torch::kByte;
  at::Tensor view = torch::zeros({up_to(6), up_to(7), up_to(5), up_to(9)}, type);
  for (int i = 0; i < 3; ++i) {
    const std::int64_t dim = up_to(view.dim()) - 1;
    const std::int64_t begin = up_to(view.size(dim)) - 1;
    switch (random() % 4) {
      case 0:
        view = view.slice(dim, begin);
        break;
      case 1:
        view = view.slice(dim, begin, view.size(dim), up_to(3));
        break;
      case 2:
        view = view.transpose(dim, up_to(view.dim()) - 1);
        break;
      default:
        if (view.dim() > 1) view = view.select(dim, begin);
    }
  }
  return view;
}

TEST(ByteRunsTest, AreTheBytesOfAnyView) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const at::Tensor view = random_view(random);
    const Bytes shown = shown_by(view);
    const ByteRuns runs(Geometry(view), 1);
    EXPECT_EQ(visited(runs, shown.size()), shown) << view.sizes() << view.strides();
    EXPECT_EQ(runs.count() * runs.length(), static_cast<std::int64_t>(view.nbytes()));
  }
}

TEST(ByteRunsTest, SmallGapsCountAsShown) {
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    const at::Tensor view = random_view(random);
    const Bytes shown = shown_by(view);
    const auto smallest_gap = static_cast<std::int64_t>(1 + random() % 200);
    const Bytes bytes = visited(ByteRuns(Geometry(view), smallest_gap), shown.size());
    std::int64_t gap = 0;
    for (std::size_t k = 0; k < shown.size(); ++k) {
      EXPECT_TRUE(bytes[k] || !shown[k]);
      gap = bytes[k] && !shown[k] ? gap + 1 : 0;
      EXPECT_LT(gap, smallest_gap) << view.sizes() << view.strides();
    }
  }
}

TEST(ByteRunsTest, RepeatedAndOverlappingElementsAreVisitedAsTheyLie) {
  const auto storage = torch::zeros({100}, torch::kByte);
  const auto bytes_of = [](const at::Tensor& view) {
    const ByteRuns runs(Geometry(view), 1);
    return runs.count() * runs.length();
  };
  EXPECT_EQ(bytes_of(storage.narrow(0, 10, 5).unsqueeze(0).expand({9, 5})), 5);
  EXPECT_EQ(bytes_of(storage.unfold(0, 10, 1)), 100);
  EXPECT_EQ(bytes_of(storage.narrow(0, 3, 0)), 0);
}

TEST(ByteRunsTest, StopWhenTold) {
  const auto column = torch::zeros({10, 10}).select(1, 3);
  int num_visited = 0;
  EXPECT_FALSE(ByteRuns(Geometry(column), 1).all_of([&](Extent) { return ++num_visited < 4; }));
  EXPECT_EQ(num_visited, 4);
}

}  // namespace
}  // namespace gradrecomp::tape
