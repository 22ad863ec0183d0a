#pragma once

#include "gradrecomp/kernels/table.h"

namespace gradrecomp::test::host_device {

/// The CPU's kernels on the device: each is work of the stream it is given.
const kernels::Table* kernel_table();

}  // namespace gradrecomp::test::host_device
