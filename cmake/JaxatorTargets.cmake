# Functions that define Jaxator's libraries with one set of flags.
include(CMakePackageConfigHelpers)

set(JAXATOR_CPU_LIBRARIES "" CACHE INTERNAL "kernel libraries")

# -fno-math-errno: sqrt is one instruction. Contraction is on: kernels want FMA. Never -ffast-math: it folds the rounding
# tricks and NaN tests of the kernels away. g++ takes the undefined operands in its own intrinsics for uninitialised ones.
set(JAXATOR_COMPILE_FLAGS -Wall -Wextra -Wno-psabi -Wno-ignored-attributes -fno-math-errno -ffp-contract=fast
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)

function(jaxator_library name kind)
  add_library(${name} ${kind} ${ARGN})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
  target_compile_options(${name} PRIVATE ${JAXATOR_COMPILE_FLAGS})
  set_target_properties(${name} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY "${JAXATOR_LIBRARY_DIR}" BUILD_RPATH "$ORIGIN" BUILD_RPATH_USE_ORIGIN ON
    INSTALL_RPATH "$ORIGIN" PREFIX lib)
  target_link_options(${name} PRIVATE -Wl,--as-needed $<$<CONFIG:Release>:-Wl,-s>)
endfunction()

# One shared object for each instruction set. Only its table is visible, so an inline function of the standard library that
# was compiled for AVX-512 can never be picked by another library of the process.
function(jaxator_cpu_library isa flags)
  set(name jaxator_cpu_${isa})
  jaxator_library(${name} MODULE ${ARGN})
  target_compile_options(${name} PRIVATE ${flags})
  target_compile_definitions(${name} PRIVATE JAXATOR_ISA=${isa})
  target_link_options(${name} PRIVATE "-Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/cpu_kernels.map")
  set_target_properties(${name} PROPERTIES LINK_DEPENDS "${CMAKE_SOURCE_DIR}/cmake/cpu_kernels.map")
  add_dependencies(jaxator ${name})
  set(JAXATOR_CPU_LIBRARIES ${JAXATOR_CPU_LIBRARIES} ${name} CACHE INTERNAL "kernel libraries")
endfunction()

# find_package(jaxator) for C++ users.
function(jaxator_install_package)
  set(dir ${CMAKE_INSTALL_LIBDIR}/cmake/jaxator)
  configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/jaxatorConfig.cmake.in
    ${CMAKE_BINARY_DIR}/jaxatorConfig.cmake INSTALL_DESTINATION ${dir})
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/jaxatorConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/jaxatorConfig.cmake ${CMAKE_BINARY_DIR}/jaxatorConfigVersion.cmake
    DESTINATION ${dir} COMPONENT cpp)
  install(EXPORT jaxatorTargets NAMESPACE jaxator:: DESTINATION ${dir} COMPONENT cpp)
endfunction()
