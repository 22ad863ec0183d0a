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

Batch random_images(const WorkloadOptions& options, std::int64_t index) {
  constexpr std::int64_t kNumDigits = 10;
  auto generator = generator_for(options, index);
  const auto size = *options.image_size;
  auto images = torch::randn({options.batch, 3, size, size}, generator);
  return {std::move(images), torch::randint(kNumDigits, {options.batch}, generator, at::kLong)};
}

Batches digit_batches(const WorkloadOptions& options) {
  return [options, digits = read_digits(options.data)](std::int64_t index) {
    const auto rows = wrapped_rows(index * options.batch, options.batch, digits.labels.size(0));
    return Batch{digit_images(digits.pixels.index_select(0, rows), *options.image_size),
                 digits.labels.index_select(0, rows)};
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

Batch text_batch(const torch::Tensor& bytes, const WorkloadOptions& options) {
  constexpr std::int64_t kFirstByteToken = 1000;  // smaller ids of BERT's vocabulary are special
  return {(bytes + kFirstByteToken).view({options.batch, *options.sequence}), bytes};
}

Batches text_batches(const WorkloadOptions& options) {
  const auto num_tokens = options.batch * *options.sequence;
  if (options.data.empty()) {
    return [options, num_tokens](std::int64_t index) {
      auto generator = generator_for(options, index);
      return text_batch(torch::randint(kNumBytes, {num_tokens}, generator, at::kLong), options);
    };
  }
  return [options, num_tokens, text = read_text(options)](std::int64_t index) {
    const auto rows = wrapped_rows(index * num_tokens, num_tokens, text.size(0));
    return text_batch(text.index_select(0, rows).to(at::kLong), options);
  };
}

}  // namespace

Batches make_batches(ModelFamily family, const WorkloadOptions& options) {
  if (family == ModelFamily::bert) return text_batches(options);
  if (!options.data.empty()) return digit_batches(options);
  return [options](std::int64_t index) { return random_images(options, index); };
}

}  // namespace gradrecomp::program
