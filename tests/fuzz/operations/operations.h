#pragma once

#include <vector>

#include "fuzz/program/program.h"

namespace gradrecomp::fuzzing {

std::vector<Operation> pointwise_operations();
std::vector<Operation> view_operations();
std::vector<Operation> write_operations();
std::vector<Operation> index_operations();
std::vector<Operation> reduction_operations();
std::vector<Operation> layer_operations();
std::vector<Operation> random_operations();
std::vector<Operation> structure_operations();
std::vector<Operation> control_flow_operations();
std::vector<Operation> function_operations();
std::vector<Operation> script_operations();
/// Of programs on a device with streams.
std::vector<Operation> stream_operations();

}  // namespace gradrecomp::fuzzing
