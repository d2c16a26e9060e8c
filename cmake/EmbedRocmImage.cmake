# Run by jaxator_rocm_image: checks the metadata of the code objects and writes the C++ source that embeds them, in the order of
# RocmArchitecture.
string(REPLACE "," ";" objects "${OBJECTS}")
set(includes "")
set(declarations "")
set(code "")
foreach(object IN LISTS objects)
  string(REGEX REPLACE ".*\\.([a-z0-9]+)\\.hsaco$" "\\1" architecture "${object}")
  execute_process(COMMAND ${READELF} --notes ${object} OUTPUT_VARIABLE notes RESULT_VARIABLE failed)
  string(REGEX MATCHALL "\\.private_segment_fixed_size: *[0-9]+" kernels "${notes}")
  if(failed OR NOT kernels)
    message(FATAL_ERROR "${NAME}: ${object} has no kernels")
  endif()
  # An array that went to scratch memory (a loop over it is not unrolled, or its index is not a constant) is no spill, but as slow.
  foreach(cost private_segment_fixed_size vgpr_spill_count sgpr_spill_count)
    string(REGEX MATCH "\\.${cost}: *[1-9][0-9]*" found "${notes}")
    if(found)
      message(FATAL_ERROR "${NAME} for ${architecture}: a kernel has ${found}, 0 is allowed\n${notes}")
    endif()
  endforeach()
  set(symbol "jaxator_${NAME}_${architecture}")
  string(APPEND includes "  .balign 4096\n${symbol}:\n  .incbin \"${object}\"\n${symbol}_end:\n  .byte 0\n")
  string(APPEND declarations "extern \"C\" __attribute__((visibility(\"hidden\"))) const char ${symbol}[], ${symbol}_end[];\n")
  file(SHA256 ${object} hash)
  string(APPEND code "{\"${hash}\", ${symbol}, ${symbol}_end}, ")
endforeach()

file(WRITE ${OUTPUT} "#include \"src/runtime/rocm/module.h\"

// At page boundaries, as an ELF file that is mapped.
asm(R\"(
  .pushsection .rodata
${includes}  .popsection
)\");

${declarations}
namespace jaxator::rocm::images {
extern const Image ${NAME};
const Image ${NAME}{\"${NAME}\", {${code}}};
}  // namespace jaxator::rocm::images
")
