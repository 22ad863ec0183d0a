// Conformance H4: writes that the program tells of by note_write().
#include <gmock/gmock.h>
#include <torch/torch.h>

#include "gradrecomp/region.h"
#include "hazards/layer_steps.h"
#include "support/messages.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

using ::testing::HasSubstr;

TEST(NotedWrite, H4MakesRawWritesExact) {
  for (const bool before : {true, false}) {
    expect_same_in_every_mode(steps_of(8, [&](Layers& layers, const at::Tensor& x, int step) {
      auto h = torch::tanh(layers.a(x));
      const auto read_before = h.detach().exp();
      auto copy = h.detach() * 2;
      if (before) note_write(copy);
      copy.data_ptr<float>()[step] = 7;
      if (!before) note_write(copy);
      return layers.b(h * copy.sin() + read_before);
    }));
  }
}

// Nothing else tells of it where no step is verified.
TEST(NotedWrite, H4OntoWhatAutogradFollowsIsExact) {
  for (const bool before : {true, false}) {
    SCOPED_TRACE(before ? "noted before" : "noted after");
    expect_same_in_every_mode(steps_of(8, [&](Layers& layers, const at::Tensor& x, int step) {
      const auto h = layers.a(x);
      if (before) note_write(h);
      h.data_ptr<float>()[step] = 7;
      if (!before) note_write(h);
      return layers.b(h.exp().sin());
    }));
  }
}

TEST(NotedWrite, H4OntoWhatAutogradFollowsAndAnOpHasReadIsExact) {
  expect_same_in_every_mode(steps_of(8, [&](Layers& layers, const at::Tensor& x, int step) {
    const auto h = layers.a(x);
    const auto read_before = h + 1;  // of which autograd saves nothing
    note_write(h);
    h.data_ptr<float>()[step] = 7;
    return layers.b(h.exp() * read_before.sin());
  }));
}

TEST(NotedWrite, H4OutsideRegionsMakesAutogradsVersionCheckSeeIt) {
  auto x = torch::randn({8}).requires_grad_();
  auto h = x * 2;
  auto y = h.exp();
  note_write(y);
  EXPECT_THAT(message_of([&] { y.sum().backward(); }), HasSubstr("modified by an inplace"));
  EXPECT_THAT(message_of([] { note_write({}); }), HasSubstr("note_write: tensor is undefined"));
}

}  // namespace
}  // namespace gradrecomp::test
