#pragma once

/// Marks what the shared libraries export: what public headers declare and do not define. All else
/// is compiled with hidden visibility. Static builds too, so that both are the same objects.
#define GRADRECOMP_API __attribute__((visibility("default")))
