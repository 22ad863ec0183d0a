# What the tests of installed packages share. Expects the variables that both are given.

# run(<command>...): a command that must succeed.
function(run)
  execute_process(COMMAND ${ARGN} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# install_and_move(<build folder> <prefix> <argument>...): installs elsewhere and moves all of it to
# <prefix>. Nothing that CMake reads there may name a place of this machine.
function(install_and_move build prefix)
  file(REMOVE_RECURSE "${prefix}" "${prefix}_first")
  run("${CMAKE_COMMAND}" --install "${build}" --prefix "${prefix}_first" ${ARGN})
  file(RENAME "${prefix}_first" "${prefix}")
  file(GLOB_RECURSE scripts "${prefix}/*.cmake")
  foreach(script IN LISTS scripts)
    file(STRINGS "${script}" absolute REGEX "[\"; ]/[A-Za-z]+/")
    if(absolute)
      message(FATAL_ERROR "${script} names a place of this machine: ${absolute}")
    endif()
  endforeach()
endfunction()

# build_and_run(<source folder> <build folder> <cache argument>...): a consumer that knows only the
# package.
function(build_and_run source build)
  run("${CMAKE_COMMAND}" -S "${source}" -B "${build}" -G "${generator}" --fresh
    "-DCMAKE_CXX_COMPILER=${compiler}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${launcher}" ${ARGN})
  run("${CMAKE_COMMAND}" --build "${build}")
  run("${build}/app")
endfunction()

# expect_refusal(<message> <source folder> <build folder> <cache argument>...): a consumer that must
# not find the package. The message is a regular expression.
function(expect_refusal expected source build)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${source}" -B "${build}" -G "${generator}" --fresh
      "-DCMAKE_CXX_COMPILER=${compiler}" ${ARGN}
    RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE message)
  string(REGEX REPLACE "[ \n]+" " " message "${message}")
  if(status EQUAL 0 OR NOT message MATCHES "${expected}")
    message(FATAL_ERROR "Expected a refusal '${expected}', got status ${status}: ${message}")
  endif()
endfunction()
