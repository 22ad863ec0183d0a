#pragma once

namespace gradrecomp::fuzzing {

/// Makes autograd ask the program what to do with what it saves, as Python's torch module does.
///
/// Call it before the first region of the process. Until then saving_hooks steps hook nothing.
void install_saving_hooks();

}  // namespace gradrecomp::fuzzing
