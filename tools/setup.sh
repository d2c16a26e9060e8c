#!/usr/bin/env bash
# Installs what is missing for building and testing, and costs nothing when nothing is: Debian packages, a virtual environment
# .venv with the newest Python found, and XLA's FFI headers in .cache.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/pythons.sh

readonly stamp=.venv/.setup-done
readonly pip_options=(--disable-pip-version-check --no-input --quiet)

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

# Debian package, and the command or file by which it is known to be here, however it came.
required_packages() {
  cat <<'END'
make make
g++ g++
clang-22 clang++-22
lld-22 ld.lld-22
llvm-22 llvm-symbolizer-22
llvm-22-dev /usr/lib/llvm-22/lib/libLLVMAMDGPUDisassembler.a
libmlir-22-dev /usr/lib/llvm-22/lib/libMLIRIR.a
mlir-22-tools mlir-tblgen-22
liblld-22-dev /usr/lib/llvm-22/lib/liblldELF.a
libpolly-22-dev /usr/lib/llvm-22/lib/libPolly.a
llvm-22-tools FileCheck-22
libzstd-dev /usr/include/zstd.h
zlib1g-dev /usr/include/zlib.h
libclang-rt-22-dev /usr/lib/llvm-22/lib/clang/22/lib/linux/libclang_rt.tsan-x86_64.a
clang-format-22 clang-format-22
ccache ccache
cmake cmake
ninja-build ninja
libgtest-dev /usr/include/gtest/gtest.h
libbenchmark-dev /usr/include/benchmark/benchmark.h
END
}

missing_packages() {
  local package sign
  while read -r package sign; do
    case $sign in
      /*) [[ -e $sign ]] ;;
      *) command -v "$sign" >/dev/null ;;
    esac || echo "$package"
  done < <(required_packages)
}

install_packages() {
  local log=.cache/apt.log root=()
  command -v apt-get >/dev/null || die "these are missing: $*. There is no apt-get here: install them another way, then run this again."
  if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null || die "these are missing: $*. Run as root, once: apt-get install $*"
    root=(sudo)
  fi
  say "installing Debian packages: $*"
  "${root[@]}" apt-get update -qq >"$log" 2>&1 || say "apt-get update failed; going on with the package lists that are here"
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >>"$log" 2>&1 || {
    grep -E '^E:' "$log" >&2 || tail -n 5 "$log" >&2
    die "apt-get could not install: $* (Jaxator is built on Debian 12; the whole output is in $log)"
  }
}

# What the result depends on, without running any Python.
fingerprint() {
  { python_candidates; cat pyproject.toml tools/setup.sh tools/pythons.sh tools/fetch_xla_headers.py cmake/XlaFfiHeaders.cmake; } | sha256sum
}

up_to_date() {
  [[ -z $(missing_packages) && -x .venv/bin/python && -e .cache/xla-include/xla/ffi/api/ffi.h && -e $stamp ]] &&
    [[ $(<"$stamp") == "$(fingerprint)" ]]
}

# Everything pyproject.toml names, one requirement a line.
requirements() {
  .venv/bin/python - <<'END'
import tomllib
with open("pyproject.toml", "rb") as file:
    config = tomllib.load(file)
extras = config["project"]["optional-dependencies"]
groups = [config["project"]["dependencies"], *extras.values(), config["build-system"]["requires"], config["dependency-groups"]["dev"]]
print(*sorted({requirement for group in groups for requirement in group}), sep="\n")
END
}

make_environment() {
  local version python log=.cache/pip.log
  [[ -n $(working_pythons) ]] || install_packages python3 python3-venv
  read -r version python < <(working_pythons) || die "no Python 3.11 or later that runs was found"
  if [[ $(.venv/bin/python -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) != "$version" ]]; then
    say "making .venv with Python $version ($python)"
    "$python" -m venv --clear .venv
  fi
  requirements >.cache/requirements.txt
  say "installing Python packages that are missing (a minute or two the first time)"
  .venv/bin/python -m pip install "${pip_options[@]}" --requirement .cache/requirements.txt 2>"$log" || {
    cat "$log" >&2
    die "pip could not install what pyproject.toml names"
  }
}

fetch_headers() {
  local version
  version=$(sed -n 's/^set(JAXATOR_JAXLIB \([0-9.]*\))$/\1/p' cmake/XlaFfiHeaders.cmake)
  if [[ ! -e .cache/jaxlib-$version/jaxlib/include/xla/ffi/api/ffi.h ]]; then
    say "fetching the FFI headers of jaxlib $version"
    .venv/bin/python tools/fetch_xla_headers.py "$version" ".cache/jaxlib-$version"
  fi
  ln -sfn "jaxlib-$version/jaxlib/include" .cache/xla-include
}

up_to_date && exit 0
mkdir -p .cache
mapfile -t missing < <(missing_packages)
[[ ${#missing[@]} == 0 ]] || install_packages "${missing[@]}"
make_environment
fetch_headers
fingerprint >"$stamp"
say "done: $(.venv/bin/python -c 'import platform, jax; print("Python", platform.python_version(), "with jax", jax.__version__)')"
