#include "normalise.cuh"

namespace gradrecomp::kernels::cuda {

cudaError_t launch(const LayerNorm& args, cudaStream_t stream) {
  const Coefficients coefficients{{args.mean, args.statistics_dtype, 0},
                                  {args.rstd, args.statistics_dtype, 1},
                                  {args.gamma, args.parameter_dtype, 1},
                                  {args.beta, args.parameter_dtype, 0}};
  with_type(args.dtype, [&]<class T>(T) {
    const Tensors<T> tensors{
        static_cast<const T*>(args.x), nullptr, static_cast<T*>(args.y), args.rounding, false,
        all_aligned(args.x, args.y)};
    launch_rows<true>(tensors, coefficients, args.num_rows, args.num_columns, stream);
  });
  return cudaGetLastError();
}

}  // namespace gradrecomp::kernels::cuda
