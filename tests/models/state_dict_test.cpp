#include "gradrecomp/models/state_dict.h"

#include "models/oracle.h"

namespace gradrecomp::models {
namespace {

struct Net : torch::nn::Module {
  Net() {
    register_module("fc", torch::nn::Linear(2, 3));
    register_module("bn", torch::nn::BatchNorm1d(3));
  }
};

StateDict copy_of(const StateDict& state) {
  StateDict copy;
  for (const auto& item : state) copy.insert(item.key(), item->detach().clone());
  return copy;
}

void expect_same(const StateDict& actual, const StateDict& expected) {
  ASSERT_EQ(actual.keys(), expected.keys());
  for (const auto& item : actual) EXPECT_TRUE(item->equal(expected[item.key()])) << item.key();
}

TEST(StateDict, HoldsParametersAndBuffersByPath) {
  EXPECT_EQ(
      state_dict(Net()).keys(),
      (std::vector<std::string>{"fc.weight", "fc.bias", "bn.weight", "bn.bias", "bn.running_mean",
                                "bn.running_var", "bn.num_batches_tracked"}));
}

TEST(StateDict, LoadsWhatAnotherModuleHeld) {
  Net from, to;
  for (auto& item : state_dict(from)) item->detach().fill_(7);
  const auto weight = state_dict(to)["fc.weight"];
  load_state_dict(to, state_dict(from));
  expect_same(state_dict(to), state_dict(from));
  EXPECT_TRUE(weight.is_same(state_dict(to)["fc.weight"])) << "an optimizer would lose it";
  EXPECT_TRUE(weight.requires_grad());
}

TEST(StateDict, LoadsIntoTheTypeOfTheModule) {
  Net from, to;
  to.to(torch::kDouble);
  load_state_dict(to, state_dict(from));
  EXPECT_EQ(state_dict(to)["fc.weight"].scalar_type(), torch::kDouble);
}

TEST(StateDict, ListsWhatDoesNotFitAndLoadsNothing) {
  Net net;
  const auto before = copy_of(state_dict(net));
  StateDict state;
  for (const auto& item : before) {
    if (item.key() != "fc.bias") state.insert(item.key(), torch::full_like(*item, 9));
  }
  state["bn.bias"] = torch::zeros(4);
  state.insert("head.bias", torch::zeros(3));
  expect_value_error([&] { load_state_dict(net, state); },
                     "different from the module in 3 places (missing fc.bias; bn.bias has shape "
                     "[4] where the module has [3]; unexpected head.bias)");
  expect_same(state_dict(net), before);
}

TEST(StateDict, ListsTheFirstFewOfManyMismatches) {
  Net net;
  expect_value_error([&] { load_state_dict(net, StateDict()); },
                     "missing bn.running_mean; and 2 more)");
}

TEST(StateDict, RejectsFilesItCannotOpen) {
  expect_value_error([] { read_state_dict("no/such/file.pt"); },
                     "read_state_dict: path is \"no/such/file.pt\", but must be a readable file.");
}

TEST(StateDict, RejectsFilesWithPythonMetadata) {
  expect_value_error([] { read_state_dict(data_file("with_metadata.pt")); },
                     "torch.save(dict(model.state_dict()), path)");
}

TEST(StateDict, RejectsFilesThatAreNoArchive) {
  expect_value_error([] { read_state_dict(data_file("names/resnet18.txt")); },
                     "resnet18.txt\", but must be a dict from names to tensors.");
}

TEST(StateDict, RejectsFilesThatHoldNoDict) {
  const auto path = std::filesystem::path(testing::TempDir()) / "gradrecomp_not_a_dict.pt";
  const auto bytes = torch::pickle_save(torch::zeros(1));
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
  expect_value_error([&] { read_state_dict(path); }, "but must be a dict from names to tensors.");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace gradrecomp::models
