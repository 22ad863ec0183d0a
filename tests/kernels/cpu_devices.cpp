// The suites on the CPU.
#include "aten_suite.h"

namespace gradrecomp::kernels {

INSTANTIATE_TEST_SUITE_P(Cpu, AtenSuite, ::testing::Values(TestDevice{}));

}  // namespace gradrecomp::kernels
