#pragma once

#include <functional>

namespace gradrecomp::program {

/// Runs `step`, and lets what runs after it run, by algorithms that give the same bits every time,
/// as far as LibTorch has them.
///
/// Where an operator has none, `step` runs a second time and that operator as it does otherwise.
void run_deterministically(const std::function<void()>& step);

/// Lets cuBLAS be deterministic, too. To be called before CUDA starts.
void make_cublas_deterministic();

}  // namespace gradrecomp::program
