# The three headers of XLA's FFI, from the package of the oldest supported jaxlib: a handler built against an older API
# version is accepted by every newer runtime, the reverse is refused. They are header-only and the same in each of its wheels.
set(JAXATOR_JAXLIB 0.10.2)
set(JAXATOR_XLA_INCLUDE "" CACHE PATH "Folder that holds xla/ffi/api/ffi.h of jaxlib ${JAXATOR_JAXLIB}")

if(NOT JAXATOR_XLA_INCLUDE)
  set(download "${CMAKE_BINARY_DIR}/jaxlib-${JAXATOR_JAXLIB}")
  if(NOT EXISTS "${download}/jaxlib/include/xla/ffi/api/ffi.h")
    set(JAXATOR_PYTHON "${Python_EXECUTABLE}")  # set by scikit-build-core: the Python that has the build requirements
    if(NOT JAXATOR_PYTHON)
      find_program(JAXATOR_PYTHON NAMES python3 python REQUIRED)
    endif()
    message(STATUS "Fetching the FFI headers of jaxlib ${JAXATOR_JAXLIB}")
    execute_process(COMMAND ${JAXATOR_PYTHON} ${CMAKE_SOURCE_DIR}/tools/fetch_xla_headers.py ${JAXATOR_JAXLIB} ${download}
      COMMAND_ERROR_IS_FATAL ANY)
  endif()
  set(JAXATOR_XLA_INCLUDE "${download}/jaxlib/include")
endif()
