#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bad_input.h"
#include "byte_size.h"
#include "expect.h"
#include "gradrecomp/plan/policies.h"
#include "gradrecomp/plan/selection.h"
#include "number.h"

using namespace gradrecomp;

namespace {

// A convolution and a norm behind it, for patterns to match.
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
  const auto policy = plan::parse_policy(text);
  fuzzing::expect(plan::parse_policy(plan::to_string(policy)) == policy,
                  "a policy is not what its name says");
}

void read_selection(const std::string& text) {
  static const plan::Graph graph = small_graph();
  const auto half = text.size() / 2;
  plan::select(graph, {.keep_stages = {text.substr(0, half)}, .drop_ops = {text.substr(half)}});
  plan::select(graph, {.keep_types = {text}});
}

void read_number(std::string_view text) {
  fuzzing::expect(program::whole_number("--n", text, {2, 100}) >= 2, "a number out of its range");
}

void read_bytes(std::string_view text) {
  fuzzing::expect(program::byte_size("--bytes", text) >= 1, "a size below one byte");
}

template <typename Read>
void expect_value_or_message(Read read) {
  try {
    read();
  } catch (const program::BadInput& error) {
    fuzzing::expect_message(error.what());
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
  expect_value_or_message([&] { read_bytes(text); });
  expect_value_or_message([&] { read_number(text); });
  expect_value_or_message([&] { program::ratio("--ratio", text); });
  expect_value_or_message([&] { program::positive_number("--number", text); });
  return 0;
}
