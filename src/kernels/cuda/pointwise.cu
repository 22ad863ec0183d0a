#include "launch.h"
#include "launch_kernel.cuh"
#include "storage.cuh"

namespace gradrecomp::kernels::cuda {
namespace {

// Travels to the device by value.
struct Steps {
  Step steps[kMaxSteps];
  int size;
};

template <class T>
struct Chain {
  const T* x;
  T* y;
  std::int64_t num_elements;
  bool aligned;
};

template <class T>
__device__ void apply_step(const Step& step, const Chain<T>& chain, std::int64_t first,
                           Values<T>& v) {
  const std::int64_t size = chain.num_elements - first;
  Pack<T> operand{};
  if (step.kind == StepKind::add || step.kind == StepKind::mul) {
    operand = load_pack(static_cast<const T*>(step.operand), first, size, chain.aligned);
  }
  switch (step.kind) {
    case StepKind::relu:
      return v.each([](float x, int) { return relu(x); });
    case StepKind::add:
      return v.each([&](float x, int i) { return x + to_float(operand.values[i]); });
    case StepKind::mul:
      return v.each([&](float x, int i) { return x * to_float(operand.values[i]); });
    case StepKind::add_scalar:
      return v.each([&](float x, int) { return x + step.scalar; });
    case StepKind::mul_scalar:
      return v.each([&](float x, int) { return x * step.scalar; });
    case StepKind::div_scalar:
      return v.each([&](float x, int) { return x / step.scalar; });
    case StepKind::mask: {
      const auto* mask = static_cast<const std::uint8_t*>(step.operand) + first;
      return v.each(
          [&](float x, int i) { return i < size ? x * (mask[i] != 0 ? 1.0F : 0.0F) : x; });
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) apply_steps(Chain<T> chain, Steps steps) {
  constexpr std::int64_t kSize = Pack<T>::kSize;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads * kSize;
  std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kSize;
  for (; first < chain.num_elements; first += stride) {
    const std::int64_t size = chain.num_elements - first;
    Values<T> v(load_pack(chain.x, first, size, chain.aligned));
    for (int s = 0; s < steps.size; ++s) apply_step(steps.steps[s], chain, first, v);
    store_pack(v.packed(), chain.y, first, size, chain.aligned);
  }
}

bool all_aligned(const PointwiseChain& chain) {
  bool aligned = cuda::all_aligned(chain.x, chain.y);
  for (const Step& step : chain.steps) {
    // Masks are read byte by byte.
    aligned = aligned && (step.kind == StepKind::mask || cuda::all_aligned(step.operand));
  }
  return aligned;
}

}  // namespace

cudaError_t launch(const PointwiseChain& chain, cudaStream_t stream) {
  Steps steps{};
  std::copy(chain.steps.begin(), chain.steps.end(), steps.steps);
  steps.size = static_cast<int>(chain.steps.size());
  with_type(chain.dtype, [&]<class T>(T) {
    const std::int64_t num_packs = (chain.num_elements + Pack<T>::kSize - 1) / Pack<T>::kSize;
    launch_kernel(apply_steps<T>, num_blocks_for(num_packs), kThreads, stream,
                  Chain<T>{static_cast<const T*>(chain.x), static_cast<T*>(chain.y),
                           chain.num_elements, all_aligned(chain)},
                  steps);
  });
  return cudaGetLastError();
}

}  // namespace gradrecomp::kernels::cuda
