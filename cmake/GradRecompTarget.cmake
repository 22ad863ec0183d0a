# gradrecomp_target(<target>): the language level, warnings and sanitizers every target shares.
function(gradrecomp_target target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  set(warnings -Wall -Wextra -Wshadow)
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>")
  if(GRADRECOMP_WERROR)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
  endif()
  if(GRADRECOMP_SANITIZE)
    target_compile_options(${target} PUBLIC
      "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${GRADRECOMP_SANITIZE};-fno-omit-frame-pointer>")
    target_link_options(${target} PUBLIC -fsanitize=${GRADRECOMP_SANITIZE})
    # GCC takes what a sanitizer puts in for reads of uninitialised optionals.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
  endif()
endfunction()

# gradrecomp_install_rpath(<target> <folder>...): where the installed file looks for libraries, and the
# built one too: had it a list of its own, CMake would end that with colons for the installation to
# write over, and an empty entry means the current folder.
function(gradrecomp_install_rpath target)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${ARGN}" BUILD_WITH_INSTALL_RPATH ON)
endfunction()

# gradrecomp_library(<target> <name>): a library of ours, lib<name>, static or, with BUILD_SHARED_LIBS,
# shared. Shared, it shows what GRADRECOMP_API marks and nothing else. Static, it shows nothing in what
# links it, so that two modules of one process with a copy each do not mix them.
function(gradrecomp_library target name)
  gradrecomp_target(${target})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    # For programs that use it, not for our other libraries: tests link shared ones from their objects.
    set_target_properties(${target} PROPERTIES GRADRECOMP_OWN_LIBRARY ON)
    target_compile_definitions(${target} INTERFACE
      "$<$<NOT:$<BOOL:$<TARGET_PROPERTY:GRADRECOMP_OWN_LIBRARY>>>:GRADRECOMP_STATIC>")
    target_link_options(${target} INTERFACE
      "LINKER:--exclude-libs,${CMAKE_STATIC_LIBRARY_PREFIX}${name}${CMAKE_STATIC_LIBRARY_SUFFIX}")
  endif()
  set_target_properties(${target} PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}"
    CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    DEFINE_SYMBOL "" LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${CMAKE_INSTALL_LIBDIR}")
  gradrecomp_install_rpath(${target} "$ORIGIN")  # all lie side by side
endfunction()

# gradrecomp_torch_pch(<target>): reuse one precompiled torch/torch.h, which costs 12 s per file.
# Only for programs and tests; the library includes thin headers.
function(gradrecomp_torch_pch target)
  if(NOT TARGET gradrecomp_torch_pch)
    file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/torch_pch.cpp" CONTENT "// carries the precompiled torch/torch.h\n")
    add_library(gradrecomp_torch_pch OBJECT "${PROJECT_BINARY_DIR}/torch_pch.cpp")
    gradrecomp_target(gradrecomp_torch_pch)
    target_link_libraries(gradrecomp_torch_pch PRIVATE LibTorch::cpu)
    target_precompile_headers(gradrecomp_torch_pch PRIVATE <torch/torch.h>)
  endif()
  # GCC takes a precompiled header only into code built as position-independent as the header itself.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  target_precompile_headers(${target} REUSE_FROM gradrecomp_torch_pch)
endfunction()

# gradrecomp_devices(<target>): link our CUDA kernels where there are any, which load anywhere, and
# LibTorch's CUDA backend where it is asked for, which does not load without CUDA's libraries.
function(gradrecomp_devices target)
  if(TARGET gradrecomp_cuda)
    target_link_libraries(${target} PRIVATE gradrecomp::cuda)
  endif()
  if(GRADRECOMP_CUDA_BACKEND)
    target_link_libraries(${target} PRIVATE LibTorch::cuda)
  endif()
endfunction()
