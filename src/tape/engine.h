#pragma once

namespace gradrecomp::tape {

/// Registers the recorder with the dispatcher and with autograd; does nothing the second time.
/// Throws: c10::Error if another library took the dispatch key, or autograd's engine after us.
void install();

}  // namespace gradrecomp::tape
