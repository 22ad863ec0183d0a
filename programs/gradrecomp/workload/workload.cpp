#include "workload/workload.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <cmath>
#include <utility>

#include "bad_input.h"
#include "workload/autocast.h"
#include "workload/device.h"

namespace gradrecomp::program {
namespace {

constexpr std::int64_t kDefaultImageSize = 224;
constexpr std::int64_t kDefaultSequence = 128;
constexpr std::int64_t kLeastImageSize = 32;
constexpr std::int64_t kPatchSize = 16;
constexpr std::int64_t kLongestSequence = 512;
constexpr double kFirstScale = 65536;  // of gradients in half precision

[[noreturn]] void not_for(const WorkloadOptions& options, std::string_view option,
                          std::string_view models) {
  reject(option, "model", options.model, fmt::format("{}. Leave {} out.", models, option));
}

void check_image_size(const WorkloadOptions& options, ModelFamily family) {
  const auto size = *options.image_size;
  const auto text = std::to_string(size);
  if (size < kLeastImageSize) {
    reject("--image-size", "value", text, "at least 32 pixels a side. Pass for example 64.");
  }
  if (family == ModelFamily::vit && size % kPatchSize != 0) {
    reject("--image-size", "value", text, "a multiple of 16 for a ViT. Pass for example 64.");
  }
  if (family == ModelFamily::resnet && size == kLeastImageSize && options.batch == 1) {
    reject(
        "--image-size", "value", text,
        "above 32 where the batch is 1, as BatchNorm needs two values a channel. Pass for example "
        "64, or --batch 2.");
  }
}

void check_layers(const WorkloadOptions& options, const ModelEntry& entry) {
  if (!options.layers || (*options.layers >= 1 && *options.layers <= entry.num_layers)) return;
  reject("--layers", "value", std::to_string(*options.layers),
         fmt::format("from 1 to {} for {}. Pass fewer.", entry.num_layers, entry.name));
}

/// Fills in what depends on the model, and refuses what does not apply to it.
WorkloadOptions completed(WorkloadOptions options, const ModelEntry& entry) {
  const bool text = entry.family == ModelFamily::bert;
  if (text && options.channels_last) not_for(options, "--channels-last", "a ResNet or ViT");
  if (!options.autocast.empty() && options.dtype != "float32") {
    reject("--autocast", "dtype", options.dtype,
           "float32, which autocast casts from. Leave --dtype out.");
  }
  if (text && options.image_size) not_for(options, "--image-size", "a ResNet or ViT");
  if (!text && options.sequence) not_for(options, "--sequence", "a BERT");
  if (options.layers && entry.num_layers == 0) not_for(options, "--layers", "a BERT or ViT");
  check_layers(options, entry);
  if (!options.layers) options.layers = entry.num_layers;
  if (!text) {
    options.image_size = options.image_size.value_or(kDefaultImageSize);
    check_image_size(options, entry.family);
    return options;
  }
  options.sequence = options.sequence.value_or(kDefaultSequence);
  if (*options.sequence < 1 || *options.sequence > kLongestSequence) {
    reject("--sequence", "value", std::to_string(*options.sequence),
           "from 1 to 512 tokens. Pass for example 128.");
  }
  return options;
}

Batches batches_of(const WorkloadOptions& options, ModelFamily family) {
  return make_batches(family, {.batch = options.batch,
                               .image_size = options.image_size.value_or(0),
                               .sequence = options.sequence.value_or(0),
                               .data = options.data,
                               .seed = options.seed});
}

Model seeded_model(const WorkloadOptions& options, const ModelEntry& entry) {
  torch::manual_seed(options.seed);
  return make_model(entry, {options.image_size.value_or(0), options.layers.value_or(0)});
}

// Module::to(dtype) would round BatchNorm's counters, which are whole numbers.
void move(const torch::Tensor& tensor, c10::Device device, at::ScalarType type) {
  tensor.set_data(tensor.to(device, tensor.is_floating_point() ? type : tensor.scalar_type()));
}

torch::Tensor with_channels_last(const torch::Tensor& tensor) {
  return tensor.dim() == 4 ? tensor.contiguous(at::MemoryFormat::ChannelsLast) : tensor;
}

}  // namespace

Workload::Workload(const WorkloadOptions& options)
    : options_(completed(options, find_model(options.model))),
      entry_(find_model(options.model)),
      device_(open_device(options.device)),
      type_(data_type(options.dtype, device_)),
      autocast_type_(autocast_type(options.autocast)),
      gradient_scale_(autocast_type_ == at::kHalf ? kFirstScale : 1),
      batches_(batches_of(options_, entry_.family)) {
  model_ = seeded_model(options_, entry_);
  move_to_device();
  if (reads_text()) make_projection();
  if (entry_.embeds_outside) split_off_embeddings();
  load_batch(0);
}

void Workload::move_to_device() {
  parameters_ = model_.module->parameters();
  buffers_ = model_.module->buffers();
  for (const auto& tensor : parameters_) move(tensor, device_, type_);
  for (const auto& tensor : buffers_) move(tensor, device_, type_);
  for (const auto& tensor : parameters_) {
    if (options_.channels_last) tensor.set_data(with_channels_last(tensor));
  }
  model_.module->train();
}

void Workload::make_projection() {
  const auto width = model_.module->named_parameters()["embeddings.word_embeddings.weight"].size(1);
  auto generator = at::detail::createCPUGenerator(options_.seed);
  const auto scores = torch::randn({width, kNumBytes}, generator);
  projection_ = (scores / std::sqrt(static_cast<double>(width))).to(device_, type_);
}

void Workload::split_off_embeddings() {
  embeddings_ = std::move(model_.stages.front());
  model_.stages.erase(model_.stages.begin());
}

void Workload::load_batch(std::int64_t index) {
  const torch::NoGradGuard no_grad;
  input_.reset();  // not while the next one is made
  target_.reset();
  auto batch = batches_(index);
  target_ = batch.target.to(device_);
  input_ =
      batch.input.is_floating_point() ? batch.input.to(device_, type_) : batch.input.to(device_);
  if (options_.channels_last) input_ = with_channels_last(input_);
  if (!embeddings_) return;
  torch::manual_seed(options_.seed);
  input_ = embeddings_->forward(input_);
}

torch::Tensor Workload::forward() const {
  auto x = input_;
  for (const auto& stage : model_.stages) {
    begin_stage(stage.name);
    x = stage.forward(std::move(x));
  }
  return x;
}

torch::Tensor Workload::loss(Region* region) {
  const Autocast autocast(device_, autocast_type_);
  auto output = region != nullptr ? region->run([&] { return forward(); }) : forward();
  if (reads_text()) output = output.matmul(projection_).view({-1, kNumBytes});
  // Half precision loses the loss's digits; float32 is left as it is.
  return torch::nn::functional::cross_entropy(output.to(torch::kFloat), target_);
}

/// "float32", "float32 autocast to bfloat16, channels last"
std::string Workload::type_description() const {
  std::string text(data_type_name(type_));
  if (autocast_type_) text += fmt::format(" autocast to {}", data_type_name(*autocast_type_));
  return text + (options_.channels_last ? ", channels last" : "");
}

std::string Workload::description() const {
  const auto size = reads_text() ? fmt::format("sequence {}", *options_.sequence)
                                 : fmt::format("image {0} x {0}", *options_.image_size);
  const auto layers = options_.layers == entry_.num_layers
                          ? std::string()
                          : fmt::format(" of {} layers", *options_.layers);
  return fmt::format("{}{}, batch {}, {}, {} on {}, input: {}", options_.model, layers,
                     options_.batch, size, type_description(), options_.device,
                     options_.data.empty() ? "random" : options_.data);
}

}  // namespace gradrecomp::program
