# Installs the libraries, their headers and a package that find_package(GradRecomp) finds. The install
# component "plan" is the planner with all that it takes; by default everything is installed.
set(GradRecomp_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/GradRecomp")

install(TARGETS gradrecomp_plan EXPORT GradRecompPlanTargets COMPONENT plan
  FILE_SET HEADERS COMPONENT plan)
install(EXPORT GradRecompPlanTargets NAMESPACE gradrecomp:: DESTINATION "${GradRecomp_package_dir}"
  COMPONENT plan)
# Apart, because they need LibTorch where they are used.
install(TARGETS gradrecomp_lib gradrecomp_models EXPORT GradRecompTargets FILE_SET HEADERS)
install(EXPORT GradRecompTargets NAMESPACE gradrecomp:: DESTINATION "${GradRecomp_package_dir}")
if(TARGET gradrecomp_cuda)
  # Apart, because only those who link it need the CUDA toolkit.
  install(TARGETS gradrecomp_cuda EXPORT GradRecompCudaTargets)
  install(EXPORT GradRecompCudaTargets NAMESPACE gradrecomp:: DESTINATION "${GradRecomp_package_dir}")
endif()

if(TARGET gradrecomp)
  # The program must find LibTorch where the build found it, even if that is inside the source tree.
  cmake_path(GET LibTorch_CPU_LIBRARY PARENT_PATH GradRecomp_libtorch_dir)
  file(RELATIVE_PATH GradRecomp_libdir "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
  gradrecomp_install_rpath(gradrecomp "$ORIGIN/${GradRecomp_libdir}" "${GradRecomp_libtorch_dir}")
  install(TARGETS gradrecomp)
endif()

configure_package_config_file(cmake/GradRecompConfig.cmake.in
  "${PROJECT_BINARY_DIR}/cmake/GradRecompConfig.cmake"
  INSTALL_DESTINATION "${GradRecomp_package_dir}"
  NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/cmake/GradRecompConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/cmake/GradRecompConfig.cmake"
  "${PROJECT_BINARY_DIR}/cmake/GradRecompConfigVersion.cmake"
  cmake/FindLibTorch.cmake
  DESTINATION "${GradRecomp_package_dir}" COMPONENT plan)
