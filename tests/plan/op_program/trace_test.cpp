#include "plan/op_program/trace.h"

#include <gtest/gtest.h>

#include <array>

namespace gradrecomp::plan {
namespace {

std::vector<std::int64_t> loads_of(const Trace& trace, Trace::List list) {
  std::vector<std::int64_t> loads(5, 100);
  trace.add_to(loads, list);
  return loads;
}

TEST(Trace, AddsUpWhatListsHold) {
  Trace trace;
  const auto rest = trace.add(Trace::kEmpty, 3, 0, 3);
  const auto list = trace.add(rest, 20, 2, 4);
  EXPECT_EQ(loads_of(trace, Trace::kEmpty), (std::vector<std::int64_t>{100, 100, 100, 100, 100}));
  EXPECT_EQ(loads_of(trace, rest), (std::vector<std::int64_t>{100, 103, 103, 103, 100}));
  EXPECT_EQ(loads_of(trace, list), (std::vector<std::int64_t>{100, 103, 103, 123, 120}));
  EXPECT_EQ(trace.add(list, 5, 3, 3), list) << "it holds nothing more";
}

TEST(Trace, ForgetsWhatNoListLeadsTo) {
  Trace trace;
  const auto shared = trace.add(Trace::kEmpty, 1, 0, 4);
  trace.add(shared, 2, 0, 4);
  auto first = trace.add(shared, 4, 0, 4);
  trace.add(first, 8, 0, 4);
  auto second = trace.add(first, 16, 0, 4);
  auto none = Trace::kEmpty;
  const std::array lists{&first, &second, &none};
  trace.keep_only(lists);
  EXPECT_EQ(none, Trace::kEmpty);
  EXPECT_EQ(loads_of(trace, first)[4], 105);
  EXPECT_EQ(loads_of(trace, second)[4], 121);
  EXPECT_EQ(second, 2) << "three are left";
}

}  // namespace
}  // namespace gradrecomp::plan
