#pragma once

#include <vector>

#include "fuzz/program/program.h"

namespace gradrecomp::fuzzing {

std::vector<Operation> borrowing_operations();
std::vector<Operation> raw_write_operations();
std::vector<Operation> resizing_operations();
std::vector<Operation> foreign_tensor_operations();
std::vector<Operation> saving_hook_operations();
std::vector<Operation> collective_operations();
std::vector<Operation> inner_backward_operations();

}  // namespace gradrecomp::fuzzing
