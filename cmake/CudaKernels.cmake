# Decides whether the CUDA kernels are compiled and enables the language if so.
#
# Defines: GradRecomp_HAS_CUDA_KERNELS
set(GRADRECOMP_CUDA_KERNELS AUTO CACHE STRING
  "Compile the CUDA kernels: AUTO (where a CUDA compiler is found), ON or OFF")
set_property(CACHE GRADRECOMP_CUDA_KERNELS PROPERTY STRINGS AUTO ON OFF)
# Turing, Ampere and Hopper. Without a list CMake would probe for one, and 3.25 asks CUDA 13 for
# architectures that it no longer has.
set(CMAKE_CUDA_ARCHITECTURES "75;86;90" CACHE STRING "Compute capabilities to compile CUDA kernels for")

set(GradRecomp_HAS_CUDA_KERNELS FALSE)
if(GRADRECOMP_CUDA_KERNELS STREQUAL "OFF")
  message(STATUS "CUDA kernels: left out, as GRADRECOMP_CUDA_KERNELS says")
  return()
endif()

include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc 13 does
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  find_package(CUDAToolkit QUIET)
endif()
if(CMAKE_CUDA_COMPILER AND TARGET CUDA::cudart_static)
  set(GradRecomp_HAS_CUDA_KERNELS TRUE)
  message(STATUS "CUDA kernels: compiled by ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION} "
    "for ${CMAKE_CUDA_ARCHITECTURES}")
elseif(GRADRECOMP_CUDA_KERNELS STREQUAL "AUTO")
  message(STATUS "CUDA kernels: left out, no CUDA compiler with its runtime was found "
    "(CMAKE_CUDA_COMPILER names one); values on CUDA devices are replayed by LibTorch alone")
else()
  message(FATAL_ERROR "GRADRECOMP_CUDA_KERNELS is ${GRADRECOMP_CUDA_KERNELS}, but no CUDA compiler with "
    "its runtime was found. Set CMAKE_CUDA_COMPILER, or leave GRADRECOMP_CUDA_KERNELS at AUTO.")
endif()
