#include "tape/replay/replay_thread.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>

#include <exception>
#include <memory>
#include <type_traits>
#include <utility>

#include "tape/aten/below_recording.h"
#include "tape/aten/polite_lock.h"

namespace gradrecomp::tape {
namespace {

using torch::autograd::Edge;
using torch::autograd::variable_list;

/// A backward pass of one node, which does something else.
class Errand final : public torch::autograd::Node {
 public:
  explicit Errand(c10::function_ref<void()> work) : work_(work) {}

  std::string name() const override { return "GradRecomp: verification"; }
  [[nodiscard]] bool has_run() const { return has_run_; }
  [[nodiscard]] const std::exception_ptr& error() const { return error_; }

 private:
  variable_list apply(variable_list&& /*gradients*/) override {
    has_run_ = true;
    try {
      work_();
    } catch (...) {
      error_ = std::current_exception();  // as it is: the engine would add to it
    }
    return {};
  }

  c10::function_ref<void()> work_;
  bool has_run_ = false;
  std::exception_ptr error_;
};

// Node pointers are std::shared_ptr up to LibTorch 2.11 and intrusive later.
template <typename Pointer>
Pointer make_errand(c10::function_ref<void()> work) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>) {
    return std::make_shared<Errand>(work);
  } else {
    return Pointer(c10::make_intrusive<Errand>(work));
  }
}

}  // namespace

void run_where_replays_run(c10::Device device, c10::function_ref<void()> work) {
  if (device.is_cpu() || device.is_meta()) return work();
  const auto node = make_errand<decltype(Edge::function)>(work);
  auto& errand = static_cast<Errand&>(*node);
  try {
    const auto nothing = [&] {
      const BelowRecording below;
      return at::empty({0}, at::TensorOptions().device(device));
    }();
    errand.add_input_metadata(nothing);
    const WithoutInterpreter waiting;
    torch::autograd::Engine::get_default_engine().execute(
        {Edge(node, 0)}, {nothing}, /*keep_graph=*/false, /*create_graph=*/false,
        /*accumulate_grad=*/true);
  } catch (const std::exception&) {
    if (!errand.has_run()) return work();  // no backward can run here, as under some tracers
  }
  if (errand.error()) std::rethrow_exception(errand.error());
}

}  // namespace gradrecomp::tape
