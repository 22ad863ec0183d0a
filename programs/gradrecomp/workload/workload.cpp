#include "workload/workload.h"

#include <ATen/autocast_mode.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <cmath>
#include <utility>

#include "bad_input.h"
#include "workload/device.h"

namespace gradrecomp::program {
namespace {

constexpr double kFirstScale = 65536;  // of gradients in half precision

[[noreturn]] void not_for(const WorkloadOptions& options, std::string_view option,
                          std::string_view models) {
  reject("--model", options.model, fmt::format("{} for {}. Leave {} out.", models, option, option));
}

void check_image_size(const WorkloadOptions& options, ModelFamily family) {
  constexpr std::int64_t kPatchSize = 16;
  constexpr std::int64_t kReduction = 32;    // of a ResNet or DenseNet
  constexpr std::int64_t kLeastPixels = 16;  // of a U-Net's halvings, and of an FNO's modes
  // Up to these the last features of an image are one pixel: a ResNet rounds up when it halves
  // sizes, and a DenseNet's transitions round down.
  const std::int64_t one_pixel = family == ModelFamily::densenet ? 60 : kReduction;
  const auto size = *options.image_size;
  if (family == ModelFamily::vit && size % kPatchSize != 0) {
    reject("--image-size", std::to_string(size), "a multiple of 16 for a ViT, such as 64.");
  }
  if (family == ModelFamily::densenet && size < kReduction) {
    reject("--image-size", std::to_string(size), "at least 32 for a DenseNet, such as 64.");
  }
  if (labels_pixels(family) && size < kLeastPixels) {
    reject("--image-size", std::to_string(size), "at least 16 for this model, such as 64.");
  }
  const bool has_norms = family == ModelFamily::resnet || family == ModelFamily::densenet;
  if (has_norms && size <= one_pixel && options.batch == 1) {
    reject("--image-size", std::to_string(size),
           "above " + std::to_string(one_pixel) +
               " where the batch is 1, as BatchNorm needs two values a channel. Pass for example "
               "64, or --batch 2.");
  }
}

void check_types(const WorkloadOptions& options, ModelFamily family) {
  if (options.dtype != "float32" && family == ModelFamily::fno) {
    reject("--dtype", options.dtype,
           "float32 for an FNO, whose Fourier transforms need it. Leave --dtype out.");
  }
  if (options.dtype == "float16" && options.device == "cpu") {
    reject("--dtype", options.dtype,
           "float32 or bfloat16 on the CPU. Pass --device cuda for float16.");
  }
  if (!options.autocast.empty() && options.dtype != "float32") {
    reject("--dtype", options.dtype,
           "float32 for --autocast, which casts from it. Leave --dtype out.");
  }
}

/// Fills in what depends on the model, and refuses what does not apply to it.
WorkloadOptions completed(WorkloadOptions options, const ModelEntry& entry) {
  const bool text = reads_text(entry.family);
  if (text && options.channels_last) not_for(options, "--channels-last", "an image model");
  if (text && options.image_size) not_for(options, "--image-size", "an image model");
  if (!text && options.sequence) not_for(options, "--sequence", "a text model");
  if (options.layers && entry.num_layers == 0)
    not_for(options, "--layers", "a transformer, LSTM or FNO");
  check_types(options, entry.family);
  options.layers = options.layers.value_or(entry.num_layers);
  if (*options.layers > entry.num_layers) {
    reject("--layers", std::to_string(*options.layers),
           fmt::format("at most {} for {}.", entry.num_layers, entry.name));
  }
  if (text) {
    options.sequence = options.sequence.value_or(128);
  } else {
    options.image_size = options.image_size.value_or(224);
    check_image_size(options, entry.family);
  }
  return options;
}

// Module::to(dtype) would round BatchNorm's counters, which are whole numbers.
void move(const torch::Tensor& tensor, c10::Device device, at::ScalarType type) {
  tensor.set_data(tensor.to(device, tensor.is_floating_point() ? type : tensor.scalar_type()));
}

/// Mixed precision on a device for a scope, as torch.autocast does it. Does nothing without a type.
class Autocast {
 public:
  Autocast(c10::Device device, std::optional<c10::ScalarType> type)
      : device_(device.type()), is_on_(type.has_value()) {
    if (!is_on_) return;
    at::autocast::set_autocast_enabled(device_, true);
    at::autocast::set_autocast_dtype(device_, *type);
  }
  ~Autocast() {
    if (!is_on_) return;
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, false);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  c10::DeviceType device_;
  bool is_on_;
};

torch::Tensor with_channels_last(const torch::Tensor& tensor) {
  return tensor.dim() == 4 ? tensor.contiguous(at::MemoryFormat::ChannelsLast) : tensor;
}

}  // namespace

Workload::Workload(const WorkloadOptions& options)
    : entry_(find_model(options.model)),
      options_(completed(options, entry_)),
      device_(open_device(options.device)),
      type_(*scalar_type(options.dtype)),
      autocast_type_(scalar_type(options.autocast)),
      batches_(make_batches(entry_.family, options_)) {
  if (autocast_type_ == at::kHalf) gradient_scale_ = GradientScale(kFirstScale, device_);
  torch::manual_seed(options.seed);
  model_ = entry_.make(options_);
  move_to_device();
  if (reads_text()) make_projection();
  if (entry_.embeds_outside) split_off_embeddings();
  load_batch(0);
}

void Workload::move_to_device() {
  parameters_ = model_.module->parameters();
  buffers_ = model_.module->buffers();
  for (const auto& tensor : state()) move(tensor, device_, type_);
  for (const auto& tensor : parameters_) {
    if (options_.channels_last) tensor.set_data(with_channels_last(tensor));
  }
  model_.module->train();
}

void Workload::make_projection() {
  const auto width = model_.width;
  auto generator = at::detail::createCPUGenerator(options_.seed);
  const auto scores = torch::randn({width, kNumBytes}, generator);
  projection_ = (scores / std::sqrt(static_cast<double>(width))).to(device_, type_);
}

void Workload::split_off_embeddings() {
  embeddings_ = std::move(model_.stages.front());
  model_.stages.erase(model_.stages.begin());
}

void Workload::reset_gradients() {
  const bool allocate = options_.gradients == "preallocated";
  model_.module->zero_grad(/*set_to_none=*/!allocate);
  for (const auto& parameter : parameters_) {
    if (allocate && !parameter.grad().defined()) {
      parameter.mutable_grad() = torch::zeros_like(parameter);
    }
  }
}

void Workload::load_batch(std::int64_t index) {
  step_seed_ = options_.seed + static_cast<std::uint64_t>(index);
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

std::vector<torch::Tensor> Workload::state() const {
  auto tensors = parameters_;
  tensors.insert(tensors.end(), buffers_.begin(), buffers_.end());
  return tensors;
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

std::string Workload::description() const {
  const auto& o = options_;
  const auto layers = o.layers == entry_.num_layers ? "" : fmt::format(" of {} layers", *o.layers);
  const auto size = reads_text() ? fmt::format("sequence {}", *o.sequence)
                                 : fmt::format("image {0} x {0}", *o.image_size);
  const auto autocast = o.autocast.empty() ? "" : fmt::format(" autocast to {}", o.autocast);
  return fmt::format("{}{}, batch {}, {}, {}{}{} on {}, input: {}", o.model, layers, o.batch, size,
                     o.dtype, autocast, o.channels_last ? ", channels last" : "", o.device,
                     o.data.empty() ? "random" : o.data);
}

}  // namespace gradrecomp::program
