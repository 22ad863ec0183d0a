#pragma once

#include "test_device.h"

namespace gradrecomp::kernels {

/// Kernels against the operators of LibTorch that they stand for.
class AtenSuite : public DeviceSuite {};

}  // namespace gradrecomp::kernels
