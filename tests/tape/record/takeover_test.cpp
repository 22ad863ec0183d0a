// Conformance R8: another library took autograd's engine before or after us. Each test has a
// process of its own, as nothing gives the engine back.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/torch.h>

#include <atomic>

#include "support/own_process.h"
#include "tape/record/recorder.h"

namespace gradrecomp::tape {
namespace {

using test::exit_after;
using torch::autograd::Engine;

// Passes all on, and counts backward passes.
class OtherEngine : public Engine {
 public:
  explicit OtherEngine(Engine& base) : base_(base) {}
  ~OtherEngine() override { stop(); }
  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs,
                                         bool keep_graph, bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    ++num_passes;
    return base_.execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }
  static inline std::atomic<int> num_passes{0};

 private:
  Engine& base_;
};

Engine& other_engine() {
  static OtherEngine engine(Engine::get_base_engine());
  return engine;
}

// Replays of one step that drops everything.
std::int64_t num_replayed_ops() {
  const auto x = torch::randn({4}).requires_grad_();
  const auto tape = std::make_shared<Tape>();
  at::Tensor y;
  {
    const Recorder recorder(tape, {nullptr, std::make_shared<const Retentions>()});
    y = x.exp().sin().sum();
  }
  tape->seal();
  y.backward();
  return tape->counts().replayed_ops;
}

class Takeover : public test::OwnProcess {};

TEST_F(Takeover, R8EngineFoundBeforeTheFirstRegionSeesEveryBackward) {
  const auto body = [] {
    torch::autograd::set_default_engine_stub(&other_engine);
    TORCH_CHECK(num_replayed_ops() > 0, "nothing was dropped");
    TORCH_CHECK(OtherEngine::num_passes == 1, "the engine was passed by");
  };
  EXPECT_EXIT(exit_after(body), ::testing::ExitedWithCode(0), "");
}

TEST_F(Takeover, R8EngineReplacedAfterTheFirstRegionIsAnErrorOfTheNext) {
  const auto body = [] {
    num_replayed_ops();
    torch::autograd::set_default_engine_stub(&other_engine);
    num_replayed_ops();
  };
  EXPECT_EXIT(exit_after(body), ::testing::ExitedWithCode(1), "engine was replaced");
}

}  // namespace
}  // namespace gradrecomp::tape
