#!/usr/bin/env bash
# Builds the wheels into dist/, jaxator's with the compiler, the linker and the compile cache of the release preset, and that of
# Flight's compiler around the executable of build/release. Prints their paths.
set -euo pipefail
cd "$(dirname "$0")/.."

linker=-fuse-ld=lld
defines=(
  JAXATOR_XLA_INCLUDE="$PWD/.cache/xla-include" CMAKE_CXX_COMPILER=clang++-22 CMAKE_CXX_COMPILER_LAUNCHER=ccache
  CMAKE_SHARED_LINKER_FLAGS=$linker CMAKE_MODULE_LINKER_FLAGS=$linker JAXATOR_BUILD_EMULATOR=ON
)
flightc=python/jaxator/lib/jaxator-flightc  # where the preset puts it

wheel() {  # <folder> <name> <defines>
  local folder=$1 log=build/$2.log
  .venv/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist \
    "${@:3}" "$folder" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
}

mkdir -p build
rm -f dist/jaxator-*.whl dist/jaxator_flightc-*.whl
wheel . wheel "${defines[@]/#/--config-settings=cmake.define.}"
cmake --build --preset release --target jaxator-flightc >build/flightc.log 2>&1 || { cat build/flightc.log >&2; exit 1; }
wheel src/flight/wheel flightc-wheel "--config-settings=cmake.define.JAXATOR_FLIGHTC=$PWD/$flightc"
ls dist/jaxator-*.whl dist/jaxator_flightc-*.whl
