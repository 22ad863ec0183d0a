#include "workload/batches.h"

#include <torch/torch.h>

#include <utility>

#include "input/digits.h"
#include "input/text.h"

namespace gradrecomp::program {
namespace {

at::Generator generator_for(const BatchOptions& options, std::int64_t index) {
  return at::detail::createCPUGenerator(options.seed + static_cast<std::uint64_t>(index));
}

Batch random_images(const BatchOptions& options, std::int64_t index) {
  constexpr std::int64_t kNumDigits = 10;
  auto generator = generator_for(options, index);
  const auto size = options.image_size;
  auto images = torch::randn({options.batch, 3, size, size}, generator);
  return {std::move(images), torch::randint(kNumDigits, {options.batch}, generator, at::kLong)};
}

Batch text_batch(const torch::Tensor& bytes, const BatchOptions& options) {
  return {(bytes + kFirstByteToken).view({options.batch, options.sequence}), bytes};
}

Batch random_text(const BatchOptions& options, std::int64_t index) {
  auto generator = generator_for(options, index);
  const auto num_tokens = options.batch * options.sequence;
  return text_batch(torch::randint(kNumBytes, {num_tokens}, generator, at::kLong), options);
}

Batches digit_batches(const BatchOptions& options) {
  return [options, digits = read_digits(options.data)](std::int64_t index) {
    const auto rows = wrapped_rows(index * options.batch, options.batch, digits.labels.size(0));
    return Batch{digit_images(digits.pixels.index_select(0, rows), options.image_size),
                 digits.labels.index_select(0, rows)};
  };
}

Batches text_batches(const BatchOptions& options) {
  return [options, text = read_text(options.data)](std::int64_t index) {
    const auto num_tokens = options.batch * options.sequence;
    const auto rows = wrapped_rows(index * num_tokens, num_tokens, text.size(0));
    return text_batch(text.index_select(0, rows).to(at::kLong), options);
  };
}

}  // namespace

Batches make_batches(ModelFamily family, const BatchOptions& options) {
  const bool text = family == ModelFamily::bert;
  if (!options.data.empty()) return text ? text_batches(options) : digit_batches(options);
  return [options, text](std::int64_t index) {
    return text ? random_text(options, index) : random_images(options, index);
  };
}

}  // namespace gradrecomp::program
