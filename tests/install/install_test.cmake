# Installs the build tree, then configures, builds and runs a consumer that knows only the package.
cmake_minimum_required(VERSION 3.25)
set(prefix "${work_dir}/prefix")
set(configure "${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/consumer" -G "${generator}" --fresh
  "-DCMAKE_PREFIX_PATH=${prefix}" "-DLibTorch_ROOT=${libtorch}" "-DCMAKE_CXX_COMPILER=${compiler}"
  "-DCMAKE_CXX_COMPILER_LAUNCHER=${launcher}")

file(REMOVE_RECURSE "${work_dir}")
foreach(command IN ITEMS
    "${CMAKE_COMMAND};--install;${build_dir};--prefix;${prefix}"
    "${configure};-B;${work_dir}/consumer"
    "${CMAKE_COMMAND};--build;${work_dir}/consumer"
    "${work_dir}/consumer/app")
  execute_process(COMMAND ${command} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
if(EXISTS "${prefix}/bin/gradrecomp")
  execute_process(COMMAND "${prefix}/bin/gradrecomp" --help OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endif()

# A package that was built with another LibTorch must refuse this one and name both versions.
file(GLOB_RECURSE config "${prefix}/*/GradRecompConfig.cmake")
file(READ "${config}" text)
string(REGEX REPLACE "LibTorch_VERSION \"[0-9.]+\"" "LibTorch_VERSION \"1.2.3\"" text "${text}")
file(WRITE "${config}" "${text}")
execute_process(COMMAND ${configure} -B "${work_dir}/refused"
  RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE message)
string(REGEX REPLACE "[ \n]+" " " message "${message}")
if(status EQUAL 0 OR NOT message MATCHES "LibTorch is [0-9.]+ .* but must be 1\\.2")
  message(FATAL_ERROR "Expected a refusal that names both versions, got status ${status}: ${message}")
endif()
