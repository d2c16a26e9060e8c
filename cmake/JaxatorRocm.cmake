# Compiles device code for CDNA3 and CDNA4 (gfx942, gfx950) and embeds it: clang++ and lld alone make code objects (HSACO). No
# part of a ROCm SDK is needed.
find_program(JAXATOR_CLANG NAMES clang++-22 clang++ REQUIRED DOC "clang++ that compiles device code")
find_program(JAXATOR_LLD NAMES ld.lld-22 ld.lld REQUIRED DOC "linker for code objects")
find_program(JAXATOR_READELF NAMES llvm-readelf-22 llvm-readelf REQUIRED DOC "reads the metadata of code objects")

set(JAXATOR_ROCM_ARCHITECTURES gfx942 gfx950)

# Plain C++ without device libraries: arithmetic functions are the backend's own. Code object version 5 is taken by every ROCm
# since 5.6. Line tables cost a few KB and let the emulator name the source line of what it finds.
set(JAXATOR_ROCM_FLAGS -x c++ --target=amdgcn-amd-amdhsa -mcode-object-version=5 -nogpulib -ffreestanding -std=c++20 -O3 -g1
  -fno-exceptions -fno-rtti -Wall -Wextra)

set(JAXATOR_ROCM_IMAGES "" CACHE INTERNAL "embedded code objects")
set(JAXATOR_ROCM_IMAGE_SOURCES "" CACHE INTERNAL "generated sources that embed them")

# jaxator_rocm_image(NAME SOURCE [FLAGS flag ...])
#
# One source file is one image: a code object for each architecture, loaded as a module of its own. Scratch memory and spills are
# errors.
function(jaxator_rocm_image name source)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "FLAGS")
  set(folder "${CMAKE_BINARY_DIR}/rocm")
  set(embedded "${folder}/${name}.cpp")
  set(objects "")
  foreach(architecture IN LISTS JAXATOR_ROCM_ARCHITECTURES)
    set(object "${folder}/${name}.${architecture}.o")
    set(hsaco "${folder}/${name}.${architecture}.hsaco")
    add_custom_command(OUTPUT ${hsaco}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
      COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${JAXATOR_CLANG} ${JAXATOR_ROCM_FLAGS} -mcpu=${architecture} ${arg_FLAGS}
        -I${CMAKE_SOURCE_DIR} -fdebug-prefix-map=${CMAKE_SOURCE_DIR}/= -MD -MF ${hsaco}.d -MT ${hsaco}
        -c ${CMAKE_SOURCE_DIR}/${source} -o ${object}
      COMMAND ${JAXATOR_LLD} -shared --threads=1 ${object} -o ${hsaco}
      DEPENDS ${CMAKE_SOURCE_DIR}/${source} DEPFILE ${hsaco}.d COMMENT "Compiling ${source} for ${architecture}" VERBATIM)
    list(APPEND objects ${hsaco})
  endforeach()
  string(REPLACE ";" "," joined "${objects}")
  add_custom_command(OUTPUT ${embedded}
    COMMAND ${CMAKE_COMMAND} -D NAME=${name} -D OBJECTS=${joined} -D OUTPUT=${embedded} -D READELF=${JAXATOR_READELF}
      -P ${CMAKE_SOURCE_DIR}/cmake/EmbedRocmImage.cmake
    DEPENDS ${objects} ${CMAKE_SOURCE_DIR}/cmake/EmbedRocmImage.cmake COMMENT "Checking and embedding ${name}" VERBATIM)
  set(JAXATOR_ROCM_IMAGES ${JAXATOR_ROCM_IMAGES} ${name} CACHE INTERNAL "embedded code objects")
  set(JAXATOR_ROCM_IMAGE_SOURCES ${JAXATOR_ROCM_IMAGE_SOURCES} ${embedded} CACHE INTERNAL "generated sources that embed them")
endfunction()

# Adds the images to a library, with a list of them for people.
function(jaxator_embed_rocm_images library)
  set(list "${CMAKE_BINARY_DIR}/rocm/images.cpp")
  set(declarations "")
  set(names "")
  foreach(image IN LISTS JAXATOR_ROCM_IMAGES)
    string(APPEND declarations "extern const Image ${image};\n")
    string(APPEND names "&${image}, ")
  endforeach()
  configure_file(${CMAKE_SOURCE_DIR}/cmake/rocm_images.cpp.in ${list} @ONLY)
  target_sources(${library} PRIVATE ${list} ${JAXATOR_ROCM_IMAGE_SOURCES})
endfunction()
