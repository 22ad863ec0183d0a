#include "workload/batches.h"

#include <torch/torch.h>

#include <utility>

#include "bad_input.h"
#include "input/digits.h"
#include "plan/files/text_file.h"

namespace gradrecomp::program {
namespace {

at::Generator generator_for(const WorkloadOptions& options, std::int64_t index) {
  return at::detail::createCPUGenerator(options.seed + static_cast<std::uint64_t>(index));
}

/// `count` row numbers of a set of `size` rows, from `first` on and round again.
torch::Tensor wrapped_rows(std::int64_t first, std::int64_t count, std::int64_t size) {
  return torch::arange(first, first + count).remainder(size);
}

/// A model of pixels is to say which are brighter than the mean of their image, so of a digit its
/// ink.
torch::Tensor bright_pixels(const torch::Tensor& images) {
  const auto gray = images.mean(1);
  return gray.gt(gray.mean({1, 2}, /*keepdim=*/true)).to(at::kLong);
}

Batch random_images(ModelFamily family, const WorkloadOptions& options, std::int64_t index) {
  constexpr std::int64_t kNumDigits = 10;
  auto generator = generator_for(options, index);
  const auto size = *options.image_size;
  auto images = torch::randn({options.batch, 3, size, size}, generator);
  auto target = labels_pixels(family)
                    ? bright_pixels(images)
                    : torch::randint(kNumDigits, {options.batch}, generator, at::kLong);
  return {std::move(images), std::move(target)};
}

Batches digit_batches(ModelFamily family, const WorkloadOptions& options) {
  return [=, digits = read_digits(options.data)](std::int64_t index) {
    const auto rows = wrapped_rows(index * options.batch, options.batch, digits.labels.size(0));
    auto images = digit_images(digits.pixels.index_select(0, rows), *options.image_size);
    auto target =
        labels_pixels(family) ? bright_pixels(images) : digits.labels.index_select(0, rows);
    return Batch{std::move(images), std::move(target)};
  };
}

/// The bytes of any file; the words a text model is trained on here.
torch::Tensor read_text(const WorkloadOptions& options) {
  constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;
  auto bytes = plan::read_file("--data", options.data, kMostBytes);
  if (bytes.empty()) reject("--data", options.data, "a file of at least one byte.");
  return torch::from_blob(bytes.data(), {static_cast<std::int64_t>(bytes.size())}, torch::kByte)
      .clone();
}

/// BERT is to say each byte that it reads, GPT and LSTM the one after it, and after the last the
/// first.
Batch text_batch(ModelFamily family, const torch::Tensor& bytes, const WorkloadOptions& options) {
  constexpr std::int64_t kFirstByteToken = 1000;  // smaller ids of BERT's vocabulary are special
  const bool is_bert = family == ModelFamily::bert;
  const auto tokens = is_bert ? bytes + kFirstByteToken : bytes;
  return {tokens.view({options.batch, *options.sequence}), is_bert ? bytes : bytes.roll(-1)};
}

Batches text_batches(ModelFamily family, const WorkloadOptions& options) {
  const auto num_tokens = options.batch * *options.sequence;
  if (options.data.empty()) {
    return [=](std::int64_t index) {
      auto generator = generator_for(options, index);
      const auto bytes = torch::randint(kNumBytes, {num_tokens}, generator, at::kLong);
      return text_batch(family, bytes, options);
    };
  }
  return [=, text = read_text(options)](std::int64_t index) {
    const auto rows = wrapped_rows(index * num_tokens, num_tokens, text.size(0));
    return text_batch(family, text.index_select(0, rows).to(at::kLong), options);
  };
}

}  // namespace

Batches make_batches(ModelFamily family, const WorkloadOptions& options) {
  if (reads_text(family)) return text_batches(family, options);
  if (!options.data.empty()) return digit_batches(family, options);
  return [=](std::int64_t index) { return random_images(family, options, index); };
}

}  // namespace gradrecomp::program
