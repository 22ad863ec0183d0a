#pragma once

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <string>
#include <utility>

#include "gradrecomp/export.h"
#include "gradrecomp/region.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

/// An nn::Sequential under a budget. Every child is a stage, a nested subclass of it is one stage.
///
///   gradrecomp::CheckpointedSequential net(model, {.max_overhead = 0.05});
///   auto loss = criterion(net->forward(images), labels);   // step 1 profiles and plans
///   loss.backward();
///
/// The children are registered under the names they have in the model, so parameter names, state
/// dicts and optimizers are those of the plain model, whose modules it shares.
class GRADRECOMP_API CheckpointedSequentialImpl : public torch::nn::Module {
 public:
  /// Throws:  c10::ValueError if the model is empty or an option is out of range.
  explicit CheckpointedSequentialImpl(torch::nn::Sequential model, Options options = {});

  /// Feeds `inputs` to the first child and each output to the next.
  /// In eval() mode the children run plainly.
  /// Throws:  c10::ValueError if the model has been given children since it was wrapped.
  template <typename Output = at::Tensor, typename... Inputs>
  Output forward(Inputs&&... inputs) {
    auto body = [&]() -> Output {
      return run_children(std::forward<Inputs>(inputs)...).template get<Output>();
    };
    return is_training() ? region_.run(body) : body();
  }

  [[nodiscard]] Region& region() { return region_; }
  [[nodiscard]] plan::Plan plan() const { return region_.plan(); }
  [[nodiscard]] std::string brief_report() const { return region_.brief_report(); }
  [[nodiscard]] std::string full_report() const { return region_.full_report(); }

  std::shared_ptr<Module> clone(
      const std::optional<torch::Device>& device = std::nullopt) const override;
  void pretty_print(std::ostream& stream) const override;

 private:
  /// Throws:  c10::ValueError if the model has been given children since it was wrapped.
  void check_children() const;

  template <typename... Inputs>
  torch::nn::AnyValue run_children(Inputs&&... inputs) {
    check_children();
    auto child = model_->begin();
    std::size_t position = 0;
    begin_stage(names_[position++]);
    auto value = child->any_forward(std::forward<Inputs>(inputs)...);
    for (++child; child != model_->end(); ++child) {
      begin_stage(names_[position++]);
      value = child->any_forward(std::move(value));
    }
    return value;
  }

  torch::nn::Sequential model_;  // not registered itself: that would prefix every name
  std::vector<std::string> names_;
  Region region_;
};

/// Holds a CheckpointedSequentialImpl, as nn::Linear holds an nn::LinearImpl.
class CheckpointedSequential : public torch::nn::ModuleHolder<CheckpointedSequentialImpl> {
 public:
  using torch::nn::ModuleHolder<CheckpointedSequentialImpl>::ModuleHolder;

  // Spelled out so that braces around the options find their type.
  explicit CheckpointedSequential(torch::nn::Sequential model, Options options = {})
      : ModuleHolder(
            std::make_shared<CheckpointedSequentialImpl>(std::move(model), std::move(options))) {}
};

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
