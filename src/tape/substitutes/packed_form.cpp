#include "tape/substitutes/packed_form.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tape/aten/bytes.h"
#include "tape/kernels/device_kernels.h"
#include "tape/op.h"

namespace gradrecomp::tape {
namespace {

at::Tensor empty_bytes(std::int64_t count, const at::Tensor& like) {
  return at::empty({count}, like.options().dtype(at::kByte).memory_format(std::nullopt));
}

class PackedIndices final : public PackedForm {
 public:
  PackedIndices(const kernels::Pooling& pooling, const at::Tensor& indices)
      : pooling_(pooling),
        sizes_(indices.sizes().vec()),
        format_(indices.suggest_memory_format()) {}

  [[nodiscard]] at::Tensor pack(const at::Tensor& output) const override {
    at::Tensor offsets = empty_bytes(output.numel(), output);
    kernels_of(output).pack_indices({.pooling = pooling_,
                                     .indices = output.const_data_ptr<std::int64_t>(),
                                     .offsets = offsets.mutable_data_ptr<std::uint8_t>()},
                                    current_stream(output));
    return offsets;
  }

  [[nodiscard]] at::Tensor run(const Op& /*op*/, const std::vector<at::Tensor>& tensors,
                               int /*formula*/, const Followers& /*followers*/) const override {
    const at::Tensor& offsets = tensors.front();
    at::Tensor indices = at::empty(sizes_, offsets.options().dtype(at::kLong), format_);
    kernels_of(offsets).unpack_indices({.pooling = pooling_,
                                        .offsets = offsets.const_data_ptr<std::uint8_t>(),
                                        .indices = indices.mutable_data_ptr<std::int64_t>()},
                                       current_stream(offsets));
    return indices;
  }

 private:
  kernels::Pooling pooling_;
  std::vector<std::int64_t> sizes_;
  at::MemoryFormat format_;
};

/// The bits of a one of that type, which has at most eight bytes.
std::uint64_t bits_of_one(c10::ScalarType type) {
  const at::Tensor one = at::ones({}, at::device(at::kCPU).dtype(type));
  std::uint64_t bits = 0;
  std::memcpy(&bits, one.const_data_ptr(), one.element_size());
  return bits;
}

class PackedMask final : public PackedForm {
 public:
  explicit PackedMask(const at::Tensor& mask)
      : shape_(mask), count_(mask.numel()), one_(bits_of_one(mask.scalar_type())) {}

  [[nodiscard]] at::Tensor pack(const at::Tensor& output) const override {
    at::Tensor bits = empty_bytes(kernels::packed_mask_bytes(count_), output);
    kernels_of(output).pack_mask({.num_elements = count_,
                                  .mask = output.const_data_ptr(),
                                  .bits = bits.mutable_data_ptr(),
                                  .element_bytes = output.element_size()},
                                 current_stream(output));
    return bits;
  }

  [[nodiscard]] at::Tensor run(const Op& /*op*/, const std::vector<at::Tensor>& tensors,
                               int /*formula*/, const Followers& /*followers*/) const override {
    const at::Tensor& bits = tensors.front();
    at::Tensor mask = at::empty_strided(shape_.sizes(), shape_.strides(),
                                        bits.options().dtype(shape_.scalar_type()));
    kernels_of(bits).unpack_mask({.num_elements = count_,
                                  .bits = bits.const_data_ptr(),
                                  .mask = mask.mutable_data_ptr(),
                                  .element_bytes = mask.element_size(),
                                  .one = one_},
                                 current_stream(bits));
    return mask;
  }

 private:
  Geometry shape_;
  std::int64_t count_;
  std::uint64_t one_;
};

/// An argument that is one number for both directions, or one for each; `otherwise` if it is empty.
std::pair<std::int64_t, std::int64_t> both(const c10::IValue& argument,
                                           std::pair<std::int64_t, std::int64_t> otherwise) {
  const auto numbers = argument.toIntVector();
  if (numbers.empty()) return otherwise;
  return {numbers.front(), numbers.back()};
}

/// A direction in which a pooling's windows go.
struct Direction {
  std::int64_t input;
  std::int64_t output;
  std::int64_t kernel;
  std::int64_t stride;
  std::int64_t padding;
  std::int64_t dilation;
};

/// Whether each window has an element of the input. Of one that lies between and beside them
/// LibTorch returns an index that is not in the window.
bool all_have_elements(const Direction& along) {
  for (std::int64_t window = 0; window < along.output; ++window) {
    const std::int64_t begin = window * along.stride - along.padding;
    const std::int64_t before = std::max<std::int64_t>(0, -begin);
    const std::int64_t first = (before + along.dilation - 1) / along.dilation;  // in the input
    if (first >= along.kernel || begin + first * along.dilation >= along.input) return false;
  }
  return true;
}

bool all_have_elements(const kernels::Pooling& p) {
  return all_have_elements({.input = p.input_height,
                            .output = p.output_height,
                            .kernel = p.kernel_height,
                            .stride = p.stride_height,
                            .padding = p.padding_height,
                            .dilation = p.dilation_height}) &&
         all_have_elements({.input = p.input_width,
                            .output = p.output_width,
                            .kernel = p.kernel_width,
                            .stride = p.stride_width,
                            .padding = p.padding_width,
                            .dilation = p.dilation_width});
}

}  // namespace

std::shared_ptr<const PackedForm> packed_indices(const Op& call, c10::IntArrayRef input_sizes,
                                                 const at::Tensor& indices) {
  const kernels::Table* table = kernels::table(indices.device().type());
  if (table == nullptr || table->pack_indices == nullptr || table->unpack_indices == nullptr) {
    return nullptr;
  }
  const bool is_last = indices.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
  const bool is_dense = indices.is_contiguous(indices.suggest_memory_format());
  // CUDA's kernels begin there at index 0, not at the window's first element, which a window of
  // infinities shows.
  if (is_last && !indices.is_cpu()) return nullptr;
  if (indices.dim() != 4 || indices.numel() == 0 || !is_dense || !fills_its_storage(indices)) {
    return nullptr;
  }
  kernels::Pooling p;
  p.num_images = indices.size(0);
  p.num_channels = indices.size(1);
  p.input_height = input_sizes[2];
  p.input_width = input_sizes[3];
  p.output_height = indices.size(2);
  p.output_width = indices.size(3);
  // self, kernel_size, stride, padding, dilation, ceil_mode; no stride means that of the kernel
  std::tie(p.kernel_height, p.kernel_width) = both(call.argument(1), {1, 1});
  std::tie(p.stride_height, p.stride_width) =
      both(call.argument(2), {p.kernel_height, p.kernel_width});
  std::tie(p.padding_height, p.padding_width) = both(call.argument(3), {0, 0});
  std::tie(p.dilation_height, p.dilation_width) = both(call.argument(4), {1, 1});
  p.layout = is_last ? kernels::Layout::channels_last : kernels::Layout::channels_first;
  if (!kernels::offsets_fit(p) || !all_have_elements(p)) return nullptr;
  return std::make_shared<PackedIndices>(p, indices);
}

std::shared_ptr<const PackedForm> packed_mask(const at::Tensor& mask) {
  const kernels::Table* table = kernels::table(mask.device().type());
  const bool has_kernels =
      table != nullptr && table->pack_mask != nullptr && table->unpack_mask != nullptr;
  constexpr std::int64_t kMostElementBytes = 8;
  const bool fits =
      mask.numel() > 0 && mask.element_size() <= kMostElementBytes && fills_its_storage(mask);
  return has_kernels && fits ? std::make_shared<PackedMask>(mask) : nullptr;
}

}  // namespace gradrecomp::tape
