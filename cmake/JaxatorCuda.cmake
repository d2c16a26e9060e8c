# Compiles device code for Hopper (sm_90a) and embeds it: clang++ alone makes PTX; where ptxas is found, a cubin is embedded
# too, which loads in 0.1 ms instead of being compiled by the driver. No part of a CUDA SDK is needed.
find_program(JAXATOR_CLANG NAMES clang++-22 clang++ REQUIRED DOC "clang++ that compiles device code")
find_program(JAXATOR_PTXAS NAMES ptxas PATHS /usr/local/cuda/bin DOC "assembler for cubins (optional)")
if(NOT JAXATOR_PTXAS)
  message(STATUS "No ptxas: kernels for CUDA are embedded as PTX alone")
endif()

# CUDA as a language only: --cuda-path names nothing, so that an installed toolkit changes nothing. Plain C++ for nvptx64 is
# not enough: it ignores launch bounds and copies tensor maps. PTX 8.0 is the oldest version that knows sm_90a.
set(JAXATOR_CUDA_FLAGS -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-path=/nonexistent --cuda-gpu-arch=sm_90a
  -Xclang -target-feature -Xclang +ptx80 -std=c++20 -O3 -fno-exceptions -fno-rtti -Wall -Wextra -Wno-unknown-cuda-version)

set(JAXATOR_CUDA_IMAGES "" CACHE INTERNAL "embedded device images")
set(JAXATOR_CUDA_IMAGE_SOURCES "" CACHE INTERNAL "generated sources that embed them")

# jaxator_cuda_image(NAME SOURCE [SPILLS entry=bytes ...] [FLAGS flag ...])
#
# One source file is one image, loaded as a module of its own. Spills are an error unless SPILLS allows an entry so many bytes
# of spill stores; the reason stands beside the call.
function(jaxator_cuda_image name source)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SPILLS;FLAGS")
  set(folder "${CMAKE_BINARY_DIR}/cuda")
  set(ptx "${folder}/${name}.ptx")
  set(embedded "${folder}/${name}.cpp")
  string(REPLACE ";" "," spills "${arg_SPILLS}")
  add_custom_command(OUTPUT ${ptx}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
    COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${JAXATOR_CLANG} ${JAXATOR_CUDA_FLAGS} ${arg_FLAGS} -I${CMAKE_SOURCE_DIR}
      -I${CMAKE_SOURCE_DIR}/include -MD -MF ${ptx}.d -MT ${ptx} -S ${CMAKE_SOURCE_DIR}/${source} -o ${ptx}
    DEPENDS ${CMAKE_SOURCE_DIR}/${source} DEPFILE ${ptx}.d COMMENT "Compiling ${source} for sm_90a" VERBATIM)
  add_custom_command(OUTPUT ${embedded}
    COMMAND ${CMAKE_COMMAND} -D NAME=${name} -D PTX=${ptx} -D OUTPUT=${embedded} -D PTXAS=${JAXATOR_PTXAS} -D SPILLS=${spills}
      -P ${CMAKE_SOURCE_DIR}/cmake/EmbedCudaImage.cmake
    DEPENDS ${ptx} ${CMAKE_SOURCE_DIR}/cmake/EmbedCudaImage.cmake COMMENT "Checking and embedding ${name}" VERBATIM)
  set(JAXATOR_CUDA_IMAGES ${JAXATOR_CUDA_IMAGES} ${name} CACHE INTERNAL "embedded device images")
  set(JAXATOR_CUDA_IMAGE_SOURCES ${JAXATOR_CUDA_IMAGE_SOURCES} ${embedded} CACHE INTERNAL "generated sources that embed them")
endfunction()

# Adds the images to a library, with a list of them for people.
function(jaxator_embed_cuda_images library)
  set(list "${CMAKE_BINARY_DIR}/cuda/images.cpp")
  set(declarations "")
  set(names "")
  foreach(image IN LISTS JAXATOR_CUDA_IMAGES)
    string(APPEND declarations "extern const Image ${image};\n")
    string(APPEND names "&${image}, ")
  endforeach()
  configure_file(${CMAKE_SOURCE_DIR}/cmake/cuda_images.cpp.in ${list} @ONLY)
  target_sources(${library} PRIVATE ${list} ${JAXATOR_CUDA_IMAGE_SOURCES})
endfunction()
