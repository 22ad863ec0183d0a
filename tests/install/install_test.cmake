# Installs the build tree, moves it, then builds and runs a consumer of the whole library.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/package.cmake")
set(consumer "${CMAKE_CURRENT_LIST_DIR}/consumer")
set(prefix "${work_dir}/prefix")
set(places "-DCMAKE_PREFIX_PATH=${prefix}" "-DLibTorch_ROOT=${libtorch}")

install_and_move("${build_dir}" "${prefix}")
build_and_run("${consumer}" "${work_dir}/consumer" ${places})
if(EXISTS "${prefix}/bin/gradrecomp")
  run("${prefix}/bin/gradrecomp" --help)
endif()

expect_refusal("LibTorch" "${consumer}" "${work_dir}/refused" "-DCMAKE_PREFIX_PATH=${prefix}")

# A package that was built with another LibTorch must refuse this one and name both versions.
file(GLOB_RECURSE config "${prefix}/*/GradRecompConfig.cmake")
file(READ "${config}" text)
string(REGEX REPLACE "LibTorch_VERSION \"[0-9.]+\"" "LibTorch_VERSION \"1.2.3\"" text "${text}")
file(WRITE "${config}" "${text}")
expect_refusal("LibTorch is [0-9.]+ .* but must be 1\\.2"
  "${consumer}" "${work_dir}/refused" ${places})
