#include <cstdint>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>

#include "expect.h"
#include "gradrecomp/plan/policies.h"
#include "gradrecomp/plan/selection.h"
#include "input/validators.h"

using namespace gradrecomp;

namespace {

// A convolution and a norm after it, for patterns to match.
plan::Graph small_graph() {
  plan::Graph graph;
  graph.stages = {{"stem"}, {"head.0"}};
  graph.values = {{.bytes = 8, .producer = 0, .saved = true},
                  {.bytes = 8, .producer = 1, .saved = true}};
  graph.ops = {{.name = "aten::convolution", .stage = 0, .outputs = {0}},
               {.name = "aten::native_batch_norm", .stage = 1, .inputs = {0}, .outputs = {1}}};
  return graph;
}

void read_policy(const std::string& text) {
  const plan::Policy policy(text);
  fuzzing::expect(plan::Policy(policy.name()) == policy, "a policy is not what its name says");
}

void read_selection(const std::string& text) {
  static const plan::Graph graph = small_graph();
  const auto half = text.size() / 2;
  plan::select(graph, {.keep_stages = {text.substr(0, half)}, .drop_ops = {text.substr(half)}});
  plan::select(graph, {.keep_types = {text}});
}

/// Hands `text` to a validator, which makes a number from `least` to `most` of it or says why not.
void validate(const CLI::Validator& validator, std::string text, double least, double most) {
  const std::string refusal = validator(text);
  if (!refusal.empty()) return fuzzing::expect_message(refusal);
  const double number = std::strtod(text.c_str(), nullptr);
  fuzzing::expect(number >= least && number <= most, "a number out of its range");
}

template <typename Read>
void expect_value_or_message(Read read) {
  try {
    read();
  } catch (const std::invalid_argument& error) {
    fuzzing::expect_message(error.what());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  text = text.substr(0, text.find('\0'));  // where an argument of a program ends
  expect_value_or_message([&] { read_policy(text); });
  expect_value_or_message([&] { read_selection(text); });
  validate(program::byte_size(), text, 1, 0x1p62);
  validate(program::whole_number(2, 100), text, 2, 100);
  validate(program::nonnegative(), text, 0, std::numeric_limits<double>::max());
  validate(program::positive(), text, std::numeric_limits<double>::denorm_min(),
           std::numeric_limits<double>::max());
  return 0;
}
