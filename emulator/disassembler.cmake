# jaxator-disassemble: LLVM's AMDGPU disassembler, linked statically. 12 MB (2.2 MB compressed), starts in 2 ms; llvm-objdump-22
# would need 143 MB of libLLVM on every machine that runs the emulator.
set(JAXATOR_LLVM_ROOT "/usr/lib/llvm-22" CACHE PATH "LLVM 22 with static libraries (Debian: llvm-22-dev)")
set(llvm_libraries "")
foreach(library AMDGPUDisassembler MCDisassembler AMDGPUDesc AMDGPUUtils CodeGenTypes Core Remarks BitstreamReader AMDGPUInfo
    MCParser MC DebugInfoDWARFLowLevel BinaryFormat TargetParser Support Demangle)
  set(path "${JAXATOR_LLVM_ROOT}/lib/libLLVM${library}.a")
  if(NOT EXISTS "${path}")
    message(FATAL_ERROR "The emulator needs ${path}: install llvm-22-dev, or configure with -DJAXATOR_BUILD_EMULATOR=OFF")
  endif()
  list(APPEND llvm_libraries "${path}")
endforeach()
find_package(ZLIB REQUIRED)
find_library(JAXATOR_ZSTD zstd REQUIRED DOC "zstd (Debian: libzstd-dev), which LLVM's libraries need")

add_executable(jaxator-disassemble tools/disassemble.cpp)
target_include_directories(jaxator-disassemble SYSTEM PRIVATE ${JAXATOR_LLVM_ROOT}/include)
# LLVM's libraries are not instrumented, and a container that crosses into them would look overrun.
target_compile_options(jaxator-disassemble PRIVATE -Wall -Wextra -fno-sanitize=all)
target_link_options(jaxator-disassemble PRIVATE -fno-sanitize=all -Wl,--gc-sections -Wl,--as-needed -Wl,-s)
target_link_libraries(jaxator-disassemble PRIVATE ${llvm_libraries} ZLIB::ZLIB ${JAXATOR_ZSTD} ${CMAKE_DL_LIBS} m)
set_target_properties(jaxator-disassemble PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${JAXATOR_LIBRARY_DIR}")
