// Conformance R10: what is linked and not used takes nothing over. Each test has a process of its
// own, as nothing gives the dispatch key or the engine back.
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/library.h>
#include <torch/torch.h>

#include "gradrecomp/checkpointed_sequential.h"
#include "support/own_process.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;
using torch::autograd::Engine;

bool has_engine_of_libtorch() {
  return &Engine::get_default_engine() == &Engine::get_base_engine();
}

bool has_free_dispatch_key() {
  return !c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(c10::DispatchKey::Fake);
}

bool has_allocator_of_libtorch() { return c10::GetCPUAllocator() == c10::GetDefaultCPUAllocator(); }

nn::Sequential make_net() { return nn::Sequential(nn::Linear(4, 4), nn::Tanh(), nn::Linear(4, 1)); }

class Inert : public OwnProcess {};

TEST_F(Inert, R10LinkedLibraryTakesNothingOver) {
  const auto body = [] {
    make_net()->forward(torch::ones({2, 4})).sum().backward();
    TORCH_CHECK(has_engine_of_libtorch(), "the engine was replaced");
    TORCH_CHECK(has_free_dispatch_key(), "the dispatch key was taken");
    TORCH_CHECK(has_allocator_of_libtorch(), "the allocator was replaced");
  };
  EXPECT_EXIT(exit_after(body), ::testing::ExitedWithCode(0), "");
}

TEST_F(Inert, R10WrappedModelTakesNothingOverBeforeItTrains) {
  const auto body = [] {
    CheckpointedSequential net(make_net(), {.policy = "drop_all"});
    net->eval();
    net->forward(torch::ones({2, 4})).sum().backward();
    net->train();
    {
      const torch::NoGradGuard no_grad;
      net->forward(torch::ones({2, 4}));
    }
    TORCH_CHECK(net->region().last_step().num_ops == 0, "a step was recorded");
    TORCH_CHECK(has_engine_of_libtorch(), "the engine was replaced");
    TORCH_CHECK(has_free_dispatch_key(), "the dispatch key was taken");

    net->forward(torch::ones({2, 4})).sum().backward();
    TORCH_CHECK(net->region().last_step().num_ops > 0, "no step was recorded");
    TORCH_CHECK(!has_engine_of_libtorch(), "the engine is that of before");
    TORCH_CHECK(!has_free_dispatch_key(), "the dispatch key is free");
  };
  EXPECT_EXIT(exit_after(body), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace gradrecomp::test
