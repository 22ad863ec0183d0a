#pragma once

#include "gradrecomp/version.h"

/// Marks what the shared libraries export: what public headers declare and do not define. All else
/// is compiled with hidden visibility. The objects of static libraries are the same ones; there,
/// linking hides what is marked, and programs are compiled as if nothing were.
#ifdef GRADRECOMP_STATIC
#define GRADRECOMP_API
#else
#define GRADRECOMP_API __attribute__((visibility("default")))
#endif
