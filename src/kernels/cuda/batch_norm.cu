#include "normalise.cuh"

namespace gradrecomp::kernels::cuda {
namespace {

Coefficients coefficients_of(const BatchNorm& args) {
  return {{args.mean, args.statistics_dtype, 0},
          {args.invstd, args.statistics_dtype, 1},
          {args.gamma, args.parameter_dtype, 1},
          {args.beta, args.parameter_dtype, 0}};
}

template <class T>
Tensors<T> tensors_of(const BatchNorm& args) {
  return {static_cast<const T*>(args.x),
          static_cast<const T*>(args.residual),
          static_cast<T*>(args.y),
          args.rounding,
          args.relu,
          all_aligned(args.x, args.residual, args.y)};
}

template <class T, class Index>
void launch_planes(const BatchNorm& args, cudaStream_t stream) {
  const std::int64_t num_elements = args.num_images * args.num_channels * args.inner;
  const int num_blocks = num_blocks_for((num_elements + Pack<T>::kSize - 1) / Pack<T>::kSize);
  launch_kernel(normalise_planes<T, Index>, num_blocks, kThreads, stream, tensors_of<T>(args),
                coefficients_of(args), static_cast<Index>(num_elements),
                static_cast<Index>(args.num_channels), static_cast<Index>(args.inner));
}

template <class T>
void launch_as(const BatchNorm& args, cudaStream_t stream) {
  // The last stride of a 32-bit walk must not wrap around.
  constexpr std::int64_t kNarrow = std::int64_t{1} << 31;
  if (args.layout == Layout::channels_last) {
    launch_rows<false>(tensors_of<T>(args), coefficients_of(args), args.num_images * args.inner,
                       args.num_channels, stream);
  } else if (args.num_images * args.num_channels * args.inner < kNarrow) {
    launch_planes<T, std::uint32_t>(args, stream);
  } else {
    launch_planes<T, std::uint64_t>(args, stream);
  }
}

}  // namespace

cudaError_t launch(const BatchNorm& args, cudaStream_t stream) {
  with_type(args.dtype, [&]<class T>(T) { launch_as<T>(args, stream); });
  return cudaGetLastError();
}

}  // namespace gradrecomp::kernels::cuda
