#pragma once

/// The version of these headers, by the rules of Semantic Versioning. CMake reads it here.
#define GRADRECOMP_VERSION_MAJOR 0
#define GRADRECOMP_VERSION_MINOR 1
#define GRADRECOMP_VERSION_PATCH 0
/// As one string, "0.1.0".
#define GRADRECOMP_VERSION "0.1.0"

/// Everything lies in an inline namespace of its minor version, so that two versions linked into
/// one program cannot take parts of each other. Programs write gradrecomp::Region all the same.
#define GRADRECOMP_NAMESPACE v0_1

namespace gradrecomp {
inline namespace GRADRECOMP_NAMESPACE {
namespace arena {}
namespace device {}
namespace kernels {}
namespace models {}
namespace plan {}
namespace profile {}
namespace tape {}
}  // namespace GRADRECOMP_NAMESPACE
}  // namespace gradrecomp
