#pragma once

/// The version of these headers, by the rules of Semantic Versioning. CMake reads it here.
#define GRADRECOMP_VERSION_MAJOR 0
#define GRADRECOMP_VERSION_MINOR 1
#define GRADRECOMP_VERSION_PATCH 0
/// As one string, "0.1.0".
#define GRADRECOMP_VERSION "0.1.0"
