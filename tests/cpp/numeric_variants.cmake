# src/numeric as small shared libraries for tests/python/test_numeric*.py: both compilers, unoptimised and optimised, each instruction
# set. All must give the same bits. One build directory of them is enough: clang's optimised one.
if(NOT (CMAKE_BUILD_TYPE STREQUAL "Release" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang"))
  return()
endif()
find_program(JAXATOR_GCC g++)

# Without g++ its libraries are missing, and the Python tests say so.
function(numeric_variant name compiler)
  if(NOT compiler)
    return()
  endif()
  set(library "${CMAKE_CURRENT_BINARY_DIR}/numeric/libnumeric_${name}.so")
  add_custom_command(OUTPUT "${library}"
    COMMAND ${compiler} -std=c++20 -Wall -Wextra -fPIC -fvisibility=hidden -ffp-contract=fast ${ARGN} "-I${CMAKE_SOURCE_DIR}"
            -MD -MF "${library}.d" -MT "${library}" -c "${CMAKE_CURRENT_SOURCE_DIR}/numeric_abi.cpp" -o "${library}.o"
    COMMAND ${compiler} -shared "${library}.o" -o "${library}"
    DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/numeric_abi.cpp" DEPFILE "${library}.d"
    COMMENT "Building libnumeric_${name}.so" VERBATIM)
  set_property(GLOBAL APPEND PROPERTY JAXATOR_NUMERIC_VARIANTS "${library}")
endfunction()

file(MAKE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/numeric")
set(v4 -O3 -march=x86-64-v4 -mprefer-vector-width=512)
foreach(compiler IN ITEMS clang gcc)
  set(path "${CMAKE_CXX_COMPILER}")
  if(compiler STREQUAL "gcc")
    set(path "${JAXATOR_GCC}")
  endif()
  numeric_variant(${compiler}_O0 "${path}" -O0)
  numeric_variant(${compiler}_v3 "${path}" -O3 -march=x86-64-v3)
  numeric_variant(${compiler}_v4 "${path}" ${v4})
  numeric_variant(${compiler}_v4_bf16 "${path}" ${v4} -mavx512bf16 -mavx512vnni)
endforeach()
# Only compiled so, not linked so: the start-up code that -ffast-math may link would flush denormals in the whole process.
numeric_variant(clang_fast_math "${CMAKE_CXX_COMPILER}" -O3 -march=x86-64-v3 -ffast-math)

get_property(libraries GLOBAL PROPERTY JAXATOR_NUMERIC_VARIANTS)
add_custom_target(numeric_variants ALL DEPENDS ${libraries})
