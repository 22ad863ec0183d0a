# Finds LibTorch without asking for a CUDA toolkit, unlike the TorchConfig.cmake of a CUDA build.
#
# Looks in CMAKE_PREFIX_PATH (a LibTorch folder, a Python wheel's torch folder, or what
# `torch.utils.cmake_prefix_path` prints) and in LibTorch_ROOT.
#
# Defines:  LibTorch::cpu   headers, libtorch_cpu and libc10
#           LibTorch::cuda  libtorch_cuda and libc10_cuda on top, where this LibTorch has them
#           LibTorch_VERSION
include(FindPackageHandleStandardArgs)

set(_libtorch_hints)
foreach(_prefix IN LISTS CMAKE_PREFIX_PATH LibTorch_ROOT)
  # share/cmake is what torch.utils.cmake_prefix_path prints: two folders below the root.
  list(APPEND _libtorch_hints "${_prefix}" "${_prefix}/torch" "${_prefix}/../..")
endforeach()

find_path(LibTorch_INCLUDE_DIR NAMES torch/csrc/autograd/engine.h
  HINTS ${_libtorch_hints} PATH_SUFFIXES include)
find_path(LibTorch_API_INCLUDE_DIR NAMES torch/torch.h
  HINTS "${LibTorch_INCLUDE_DIR}/torch/csrc/api/include" NO_DEFAULT_PATH)
find_library(LibTorch_CPU_LIBRARY NAMES torch_cpu
  HINTS "${LibTorch_INCLUDE_DIR}/../lib" ${_libtorch_hints} PATH_SUFFIXES lib)
find_library(LibTorch_C10_LIBRARY NAMES c10
  HINTS "${LibTorch_INCLUDE_DIR}/../lib" ${_libtorch_hints} PATH_SUFFIXES lib)
find_library(LibTorch_CUDA_LIBRARY NAMES torch_cuda
  HINTS "${LibTorch_INCLUDE_DIR}/../lib" NO_DEFAULT_PATH)
find_library(LibTorch_C10_CUDA_LIBRARY NAMES c10_cuda
  HINTS "${LibTorch_INCLUDE_DIR}/../lib" NO_DEFAULT_PATH)

if(LibTorch_INCLUDE_DIR AND EXISTS "${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h")
  set(_libtorch_version_header "${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h")
elseif(LibTorch_API_INCLUDE_DIR)
  set(_libtorch_version_header "${LibTorch_API_INCLUDE_DIR}/torch/version.h")
endif()
if(_libtorch_version_header AND EXISTS "${_libtorch_version_header}")
  set(LibTorch_VERSION "")
  foreach(_part MAJOR MINOR PATCH)
    file(STRINGS "${_libtorch_version_header}" _line REGEX "#define TORCH_VERSION_${_part} ")
    string(REGEX MATCH "[0-9]+$" _number "${_line}")
    string(APPEND LibTorch_VERSION ".${_number}")
  endforeach()
  string(SUBSTRING "${LibTorch_VERSION}" 1 -1 LibTorch_VERSION)
endif()

find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_INCLUDE_DIR
                LibTorch_API_INCLUDE_DIR
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE
    "Pass -DCMAKE_PREFIX_PATH=<LibTorch folder>, for a Python wheel its folder torch, which Python prints as torch.utils.cmake_prefix_path.")

if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  find_package(Threads REQUIRED)
  add_library(LibTorch::c10 SHARED IMPORTED)
  set_target_properties(LibTorch::c10 PROPERTIES IMPORTED_LOCATION "${LibTorch_C10_LIBRARY}")
  add_library(LibTorch::cpu SHARED IMPORTED)
  set_target_properties(LibTorch::cpu PROPERTIES
    IMPORTED_LOCATION "${LibTorch_CPU_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${LibTorch_INCLUDE_DIR};${LibTorch_API_INCLUDE_DIR}"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${LibTorch_INCLUDE_DIR};${LibTorch_API_INCLUDE_DIR}"
    # A CUDA build of libtorch_cpu names CUDA's runtime libraries, which may be absent at link time.
    INTERFACE_LINK_OPTIONS "LINKER:--allow-shlib-undefined"
    INTERFACE_LINK_LIBRARIES "LibTorch::c10;Threads::Threads")
  if(LibTorch_CUDA_LIBRARY AND LibTorch_C10_CUDA_LIBRARY)
    add_library(LibTorch::cuda INTERFACE IMPORTED)
    # Nothing of ours names a symbol of libtorch_cuda: loading it registers the CUDA backend.
    set_target_properties(LibTorch::cuda PROPERTIES INTERFACE_LINK_LIBRARIES
      "LibTorch::cpu;-Wl,--no-as-needed;${LibTorch_CUDA_LIBRARY};${LibTorch_C10_CUDA_LIBRARY};-Wl,--as-needed")
  endif()
endif()
mark_as_advanced(LibTorch_INCLUDE_DIR LibTorch_API_INCLUDE_DIR LibTorch_CPU_LIBRARY
  LibTorch_C10_LIBRARY LibTorch_CUDA_LIBRARY LibTorch_C10_CUDA_LIBRARY)
