#!/usr/bin/env bash
# What a C++ user does: installs the library (no JAX, no Python in it), finds it with CMake, builds examples/cpp, runs it.
set -euo pipefail
cd "$(dirname "$0")/.."

prefix=$PWD/build/example/prefix
rm -rf "$prefix"
cmake --install build/release --component cpp --prefix "$prefix" >/dev/null
if find "$prefix" -name '*xla*' | grep .; then
  echo "the component for C++ users holds files of the JAX bridge" >&2
  exit 1
fi
cmake -S examples/cpp -B build/example -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build build/example
build/example/attention "$@"
