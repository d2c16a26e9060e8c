#!/usr/bin/env bash
# Builds the wheel into dist/ with the compiler, the linker and the compile cache of the release preset. Prints its path.
set -euo pipefail
cd "$(dirname "$0")/.."

linker=-fuse-ld=lld
defines=(
  JAXATOR_XLA_INCLUDE="$PWD/.cache/xla-include" CMAKE_CXX_COMPILER=clang++-22 CMAKE_CXX_COMPILER_LAUNCHER=ccache
  CMAKE_SHARED_LINKER_FLAGS=$linker CMAKE_MODULE_LINKER_FLAGS=$linker JAXATOR_BUILD_EMULATOR=ON
)
mkdir -p build
rm -f dist/jaxator-*.whl
.venv/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist \
  "${defines[@]/#/--config-settings=cmake.define.}" . >build/wheel.log 2>&1 || { cat build/wheel.log >&2; exit 1; }
ls dist/jaxator-*.whl
