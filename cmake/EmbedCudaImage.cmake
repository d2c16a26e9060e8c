# Run by jaxator_cuda_image: checks the PTX, assembles it where ptxas is at hand and checks its report, writes the C++ source
# that embeds both.
file(READ ${PTX} text)

# The one check that needs no ptxas: an array that went to local memory, where it costs more than the kernel's arithmetic.
if(text MATCHES "__local_depot")
  message(FATAL_ERROR "${NAME}: an array went to local memory (a loop over it is not unrolled, or its index is not a constant)")
endif()

set(cubin "${PTX}.cubin")
if(PTXAS)
  execute_process(COMMAND ${PTXAS} -v -O3 -arch=sm_90a ${PTX} -o ${cubin} OUTPUT_VARIABLE report ERROR_VARIABLE report RESULT_VARIABLE failed)
  file(WRITE ${PTX}.log "${report}")
  if(failed)
    message(FATAL_ERROR "${NAME}: ptxas refuses the PTX\n${report}")
  endif()
  # C7508 and its neighbours: setmaxnreg ignored, wgmma serialised, waits injected.
  if(report MATCHES "C75[0-9][0-9]|[Ss]erializ")
    message(FATAL_ERROR "${NAME}: ptxas warns\n${report}")
  endif()
  string(REPLACE "," ";" SPILLS "${SPILLS}")
  string(REGEX MATCHALL "Function properties for [A-Za-z0-9_]+[^\n]*\n[^\n]*spill stores" functions "${report}")
  foreach(function IN LISTS functions)
    string(REGEX MATCH "Function properties for ([A-Za-z0-9_]+)" _ "${function}")
    set(entry ${CMAKE_MATCH_1})
    string(REGEX MATCH "([0-9]+) bytes spill stores" _ "${function}")
    set(spilled ${CMAKE_MATCH_1})
    set(allowed 0)
    foreach(pair IN LISTS SPILLS)
      if(pair MATCHES "^${entry}=([0-9]+)$")
        set(allowed ${CMAKE_MATCH_1})
      endif()
    endforeach()
    if(spilled GREATER allowed)
      message(FATAL_ERROR "${NAME}: ${entry} spills ${spilled} bytes, ${allowed} are allowed\n${report}")
    endif()
  endforeach()
else()
  file(WRITE ${cubin} "")
endif()

file(SHA256 ${PTX} hash)
file(WRITE ${OUTPUT} "#include \"src/runtime/cuda/module.h\"

// The PTX ends with a zero byte: the driver takes it as text.
asm(R\"(
  .pushsection .rodata
  .balign 64
jaxator_${NAME}_ptx:
  .incbin \"${PTX}\"
jaxator_${NAME}_ptx_end:
  .byte 0
  .balign 64
jaxator_${NAME}_cubin:
  .incbin \"${cubin}\"
jaxator_${NAME}_cubin_end:
  .popsection
)\");

extern \"C\" __attribute__((visibility(\"hidden\"))) const char jaxator_${NAME}_ptx[], jaxator_${NAME}_ptx_end[],
    jaxator_${NAME}_cubin[], jaxator_${NAME}_cubin_end[];

namespace jaxator::cuda::images {
extern const Image ${NAME};
const Image ${NAME}{\"${NAME}\", \"${hash}\", jaxator_${NAME}_ptx, jaxator_${NAME}_ptx_end, jaxator_${NAME}_cubin, jaxator_${NAME}_cubin_end};
}  // namespace jaxator::cuda::images
")
