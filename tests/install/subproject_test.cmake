# Configures, builds and runs a project that has GradRecomp as a part of itself, in both ways: by
# add_subdirectory with static libraries, and by FetchContent with shared ones. They share a build
# folder and objects, so the second one compiles nothing again. Then a consumer uses the planner
# that the project installs.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/package.cmake")
# The build folder lies beside that of the tests: from there the sources have the same relative paths, by
# which a compiler cache knows them.
file(REMOVE_RECURSE "${work_dir}" "${build}")
set(configure "${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/subproject" -B "${build}"
  -G "${generator}" "-DGRADRECOMP_SOURCE=${source_dir}" "-DCMAKE_PREFIX_PATH=${libtorch}"
  "-DCMAKE_BUILD_TYPE=${build_type}" -DGRADRECOMP_CUDA_KERNELS=OFF
  "-DCMAKE_CXX_COMPILER=${compiler}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${launcher}")

# With a compiler cache the whole library is here within seconds, else within minutes.
set(apps app)
if(launcher)
  list(APPEND apps app_with_torch)
endif()
foreach(variant IN ITEMS "OFF;OFF" "ON;ON")
  list(GET variant 0 fetch)
  list(GET variant 1 shared)
  run(${configure} "-DFETCH=${fetch}" "-DBUILD_SHARED_LIBS=${shared}")
  run("${CMAKE_COMMAND}" --build "${build}" --parallel 2 --target ${apps})
  foreach(app IN LISTS apps)
    run("${build}/${app}")
  endforeach()
  install_and_move("${build}" "${work_dir}/prefix" --component plan)
  build_and_run("${CMAKE_CURRENT_LIST_DIR}/planner" "${work_dir}/planner"
    "-DCMAKE_PREFIX_PATH=${work_dir}/prefix")
endforeach()
expect_refusal("components installed are plan alone"
  "${CMAKE_CURRENT_LIST_DIR}/consumer" "${work_dir}/refused" "-DCMAKE_PREFIX_PATH=${work_dir}/prefix")
file(REMOVE_RECURSE "${build}")
