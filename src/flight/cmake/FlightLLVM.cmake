# LLVM, MLIR and lld, linked statically: flight_link(target).
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
find_package(LLD REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/lld)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# Debian's MLIR and lld targets name the shared libLLVM in their interface. Left there, two copies of LLVM meet in one program,
# which then aborts at its start: "Option ... registered more than once".
file(GLOB mlir_archives ${LLVM_LIBRARY_DIR}/libMLIR*.a)
set(upstream_targets lldELF lldCommon)
foreach(archive IN LISTS mlir_archives)
  get_filename_component(name ${archive} NAME_WE)
  string(REGEX REPLACE "^lib" "" name ${name})
  list(APPEND upstream_targets ${name})
endforeach()
foreach(name IN LISTS upstream_targets)
  if(TARGET ${name})
    get_target_property(libraries ${name} INTERFACE_LINK_LIBRARIES)
    if(libraries)
      list(FILTER libraries EXCLUDE REGEX "^(LLVM|\\$<LINK_ONLY:LLVM>)$")
      set_target_properties(${name} PROPERTIES INTERFACE_LINK_LIBRARIES "${libraries}")
    endif()
  endif()
endforeach()

# What LLVM compresses with comes along, too: a machine without libzstd.so can run the wheel.
find_library(flight_zstd libzstd.a REQUIRED)
find_library(flight_zlib libz.a REQUIRED)
set_target_properties(zstd::libzstd_shared PROPERTIES IMPORTED_LOCATION ${flight_zstd})
set_target_properties(ZLIB::ZLIB PROPERTIES IMPORTED_LOCATION ${flight_zlib} IMPORTED_LOCATION_RELEASE ${flight_zlib})

# lld initialises every target that LLVM was built with. Those that are not linked get empty functions.
set(FLIGHT_STUBS "${CMAKE_CURRENT_BINARY_DIR}/absent_targets.cpp")
set(stubs "extern \"C\" {\n")
foreach(target IN LISTS LLVM_TARGETS_TO_BUILD)
  foreach(part TargetInfo Target TargetMC AsmPrinter AsmParser Disassembler)
    if(NOT target MATCHES "^(X86|AMDGPU|NVPTX)$" OR (target STREQUAL NVPTX AND part MATCHES "AsmParser|Disassembler"))
      string(APPEND stubs "void LLVMInitialize${target}${part}() {}\n")
    endif()
  endforeach()
endforeach()
file(GENERATE OUTPUT ${FLIGHT_STUBS} CONTENT "${stubs}}\n")

set(flight_mlir_libraries MLIRParser MLIRPass MLIRTransforms MLIRTransformUtils MLIRAnalysis MLIRFuncDialect MLIRArithDialect
  MLIRArithTransforms MLIRArithUtils MLIRMathDialect MLIRMathTransforms MLIRSCFDialect MLIRSCFTransforms MLIRSCFUtils MLIRVectorDialect
  MLIRVectorTransforms MLIRMemRefDialect MLIRMemRefTransforms MLIRUBDialect MLIRLLVMDialect MLIRLLVMIRTransforms MLIRROCDLDialect MLIRNVVMDialect
  MLIRSCFToControlFlow MLIRVectorToLLVMPass MLIRVectorToSCF MLIRArithToLLVM MLIRMathToLLVM MLIRControlFlowToLLVM MLIRFuncToLLVM
  MLIRMemRefToLLVM MLIRIndexToLLVM MLIRUBToLLVM MLIRNVVMToLLVM MLIRReconcileUnrealizedCasts MLIRBuiltinToLLVMIRTranslation
  MLIRLLVMToLLVMIRTranslation MLIRROCDLToLLVMIRTranslation MLIRNVVMToLLVMIRTranslation MLIRTargetLLVMIRExport)
llvm_map_components_to_libnames(flight_llvm_libraries passes x86codegen x86desc x86info x86asmparser x86disassembler amdgpucodegen
  amdgpudesc amdgpuinfo amdgpuutils amdgpuasmparser amdgpudisassembler nvptxcodegen nvptxdesc nvptxinfo lto dtlto option object
  binaryformat)

function(flight_link target)
  target_link_libraries(${target} PRIVATE ${flight_mlir_libraries} lldELF lldCommon ${flight_llvm_libraries})
  target_link_options(${target} PRIVATE -fno-sanitize=all -fuse-ld=lld -Wl,--gc-sections -Wl,--as-needed -static-libstdc++ -static-libgcc
    $<$<CONFIG:Release>:-Wl,-s>)
endfunction()
