# Configures, builds and runs a project that has GradRecomp as a part of itself, in both ways. They
# share a build folder, so the second one compiles nothing again.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE "${work_dir}")
set(configure "${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/subproject" -B "${work_dir}"
  -G "${generator}" "-DGRADRECOMP_SOURCE=${source_dir}" "-DCMAKE_PREFIX_PATH=${libtorch}"
  "-DCMAKE_CXX_COMPILER=${compiler}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${launcher}")
foreach(fetch IN ITEMS OFF ON)
  foreach(command IN ITEMS
      "${configure};-DFETCH=${fetch}"
      "${CMAKE_COMMAND};--build;${work_dir};--target;app;--parallel;2"
      "${work_dir}/app")
    execute_process(COMMAND ${command} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
endforeach()
