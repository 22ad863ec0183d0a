#include "tape/record/recording_engine.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/engine.h>

#include <mutex>

#include "tape/dispatch/python_operators.h"
#include "tape/interception/interceptor.h"
#include "tape/own_work.h"
#include "tape/record/handle.h"
#include "tape/record/recorder.h"
#include "tape/writing/unseen_write_operator.h"

namespace gradrecomp::tape {
namespace {

using torch::autograd::Engine;

// Passes everything on to the engine it found, and gives out handles while a region records.
class RecordingEngine final : public Engine {
 public:
  explicit RecordingEngine(Engine& base) : base_(base) {}
  ~RecordingEngine() override { stop(); }

  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs,
                                         bool keep_graph, bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    return base_.execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }

  // Node pointers are std::shared_ptr up to LibTorch 2.11 and intrusive later: take Edge's type.
  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<torch::autograd::GraphTask>& graph_task,
      decltype(torch::autograd::Edge::function) root,
      torch::autograd::InputBuffer&& buffer) override {
    return base_.execute_with_graph_task(graph_task, std::move(root), std::move(buffer));
  }

  std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override {
    return base_.make_anomaly_metadata();
  }

  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    // A kernel that calls differentiable operators makes a graph in a replay, too, and drops it.
    if (in_own_work()) return nullptr;
    // The program's own hooks go first, as in plain training.
    if (auto theirs = base_.get_default_saved_variable_hooks()) return theirs;
    return Recorder::current() != nullptr ? std::make_unique<Handle>() : nullptr;
  }

 private:
  Engine& base_;
};

Engine* base_engine = nullptr;

// Never destroyed, like all that a graph may need which the program frees as it ends.
Engine& recording_engine() {
  static auto* engine = new RecordingEngine(*base_engine);
  return *engine;
}

// Engine threads inherit the dispatch key from the recording thread, but no recorder.
void record(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack) {
  if (Recorder* recorder = Recorder::current()) {
    recorder->record(op, below, stack);
  } else {
    op.redispatchBoxed(below, stack);
  }
}

bool has_recorder() noexcept { return Recorder::installed() != nullptr; }

}  // namespace

void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    install_interceptor({.take = &record, .is_on = &has_recorder});
    (void)
        unseen_write();  // which is registered now, before kernels for new operators are asked for
    base_engine = &Engine::get_default_engine();
    torch::autograd::set_default_engine_stub(&recording_engine);
  });
  let_python_operators_pass();
  intercept_new_operators();
  TORCH_CHECK(
      &Engine::get_default_engine() == &recording_engine(),
      "gradrecomp::Region: autograd's engine was replaced after the first region, but must ",
      "be GradRecomp's, which passes all on to the one it found. Load the other library, ",
      "or the torch module of Python, before the first region runs.");
}

}  // namespace gradrecomp::tape
