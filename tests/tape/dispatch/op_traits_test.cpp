// What is known of operators.
#include "tape/dispatch/op_traits.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <string_view>

namespace gradrecomp::tape {
namespace {

/// Whether it only reads running statistics, or returns what they become.
bool leaves_statistics_alone(const c10::OperatorName& op) {
  const std::string_view name = op.name;
  const auto contains = [&](std::string_view part) { return name.find(part) != name.npos; };
  return contains("backward") || contains("_functional") || contains("no_training") ||
         contains("no_update") || contains("quantized");
}

TEST(OpTraits, KnowWhichOfLibTorchsOperatorsUpdateRunningStatistics) {
  auto& dispatcher = c10::Dispatcher::singleton();
  int num_known = 0;
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || !name.name.starts_with("aten::") || leaves_statistics_alone(name)) continue;
    if (!op->schema().argumentIndexWithName("running_mean")) continue;
    EXPECT_EQ(traits_of(*op).running_statistics.size(), 2) << name;
    ++num_known;
  }
  EXPECT_GE(num_known, 11);
}

/// An operator of a library that may be loaded anew, whose place in LibTorch's table lasts.
class Reloaded {
 public:
  static c10::OperatorHandle load(std::unique_ptr<torch::Library>& library, const char* schema) {
    library = std::make_unique<torch::Library>(torch::Library::FRAGMENT, "gradrecomp_test",
                                               std::nullopt, __FILE__, __LINE__);
    library->def(schema);
    return c10::Dispatcher::singleton().findSchemaOrThrow("gradrecomp_test::reloaded", "");
  }

 private:
  torch::Library kernels_ = make();

  static torch::Library make() {
    torch::Library library(torch::Library::IMPL, "gradrecomp_test", c10::DispatchKey::CPU, __FILE__,
                           __LINE__);
    library.impl("reloaded", torch::CppFunction::makeFallthrough());
    return library;
  }
};

TEST(OpTraits, AreOfTheOperatorThatIsThereNow) {
  Reloaded operators;
  std::unique_ptr<torch::Library> library;
  const auto one = Reloaded::load(library, "reloaded(Tensor x) -> Tensor");
  EXPECT_EQ(traits_of(one).writes.size(), 1);
  const auto* place = &one.schema();
  library.reset();
  const auto another = Reloaded::load(library, "reloaded(Tensor(a!) x, Tensor y) -> Tensor(a!)");
  EXPECT_EQ(&another.schema(), place) << "the test needs another operator in the same place";
  EXPECT_EQ(traits_of(another).writes.size(), 2);
  EXPECT_TRUE(traits_of(another).writes_any);
}

TEST(OpTraits, KnowWhichOperatorsHangOnOtherProcesses) {
  for (const char* name : {"_c10d_functional::all_reduce",
                           "_c10d_functional::all_gather_into_tensor", "c10d::allreduce_"}) {
    const auto op = c10::Dispatcher::singleton().findSchema({name, ""});
    ASSERT_TRUE(op) << name;
    EXPECT_FALSE(traits_of(*op).replayable) << name;
  }
}

TEST(OpTraits, TellThatTheirOperatorHasDeparted) {
  Reloaded operators;
  std::unique_ptr<torch::Library> library;
  const OpTraits& one = traits_of(Reloaded::load(library, "reloaded(Tensor x) -> Tensor"));
  EXPECT_FALSE(one.has_departed);
  library.reset();
  EXPECT_TRUE(one.has_departed);
  const OpTraits& another = traits_of(Reloaded::load(library, "reloaded(Tensor x) -> Tensor"));
  EXPECT_FALSE(another.has_departed);
  EXPECT_EQ(another.name, "gradrecomp_test::reloaded");
}

}  // namespace
}  // namespace gradrecomp::tape
