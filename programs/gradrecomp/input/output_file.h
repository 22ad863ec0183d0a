#pragma once

#include <string_view>
#include <vector>

#include "input/named_file.h"

namespace gradrecomp::program {

/// Checks that files can be written, each to a place of its own and none over an input, before
/// anything takes time and without opening any.
/// Throws:  std::invalid_argument or BadInput, naming the option.
void check_outputs(const std::vector<NamedFile>& outputs,
                   const std::vector<NamedFile>& inputs = {});

/// Writes `text`, unless there is no file, so that an old file stays whole until the new one is.
/// Throws:  std::runtime_error naming the option, if the disk does not take it.
void write_output(const NamedFile& file, std::string_view text);

}  // namespace gradrecomp::program
