#include "gradrecomp/checkpointed_sequential.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

CheckpointedSequentialImpl::CheckpointedSequentialImpl(torch::nn::Sequential model, Options options)
    : torch::nn::Module("gradrecomp::CheckpointedSequential"),
      model_(std::move(model)),
      region_(std::move(options)) {
  TORCH_CHECK_VALUE(
      !model_.is_empty() && !model_->is_empty(),
      "CheckpointedSequential: model is empty, but must have at least one child. Add ",
      "modules before wrapping it.");
  for (const auto& child : model_->named_children()) {
    names_.push_back(child.key());
    register_module(child.key(), child.value());
  }
}

std::shared_ptr<torch::nn::Module> CheckpointedSequentialImpl::clone(
    const std::optional<torch::Device>& device) const {
  auto copy = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(model_->clone(device));
  auto wrapped = std::make_shared<CheckpointedSequentialImpl>(
      torch::nn::Sequential(std::move(copy)), region_.options());
  // Children may be in a mode different from that of their wrapper, as frozen ones are.
  const auto children = model_->modules(/*include_self=*/false);
  wrapped->train(is_training());
  const auto copies = wrapped->model_->modules(/*include_self=*/false);
  for (std::size_t i = 0; i < copies.size(); ++i) copies[i]->train(children[i]->is_training());
  return wrapped;
}

void CheckpointedSequentialImpl::check_children() const {
  TORCH_CHECK_VALUE(model_->size() == names_.size(), "CheckpointedSequential: model has ",
                    model_->size(), " children, but must have the ", names_.size(),
                    " that it was wrapped with. Add modules before wrapping it.");
}

void CheckpointedSequentialImpl::pretty_print(std::ostream& stream) const {
  stream << "gradrecomp::CheckpointedSequential";
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
