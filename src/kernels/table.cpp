#include "gradrecomp/kernels/table.h"

#include <array>
#include <atomic>

#include "kernels/cpu/cpu.h"

namespace gradrecomp::kernels {
namespace {

constexpr auto kNumDevices =
    static_cast<std::size_t>(c10::DeviceType::COMPILE_TIME_MAX_DEVICE_TYPES);

constexpr Table kCpu{.batch_norm_apply = &cpu::batch_norm_apply,
                     .layer_norm_apply = &cpu::layer_norm_apply,
                     .apply_chain = &cpu::apply_chain,
                     .pack_mask = &cpu::pack_mask,
                     .unpack_mask = &cpu::unpack_mask,
                     .pack_indices = &cpu::pack_indices,
                     .unpack_indices = &cpu::unpack_indices,
                     .round_floats = &cpu::round_floats,
                     .widen_floats = &cpu::widen_floats,
                     .hash_memory = &cpu::hash_memory};

// Constant-initialised, so that a library may register before this file's own initialisers ran.
constinit std::array<std::atomic<const Table*>, kNumDevices> tables{&kCpu};
static_assert(static_cast<int>(c10::DeviceType::CPU) == 0);

}  // namespace

const Table* table(c10::DeviceType device) { return tables[static_cast<std::size_t>(device)]; }

void register_table(c10::DeviceType device, const Table* kernels) {
  tables[static_cast<std::size_t>(device)] = kernels;
}

std::optional<Dtype> dtype_of(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Float:
      return Dtype::float32;
    case c10::ScalarType::Half:
      return Dtype::float16;
    case c10::ScalarType::BFloat16:
      return Dtype::bfloat16;
    default:
      return std::nullopt;
  }
}

}  // namespace gradrecomp::kernels
