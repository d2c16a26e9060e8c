#!/usr/bin/env bash
# Draws the pictures of docs/layouts.md again, with the commands that stand above them. tests/python/test_layout_docs.py checks that
# they are up to date.
set -euo pipefail
cd "$(dirname "$0")/.."

jaxator() { PYTHONPATH=${PYTHONPATH:-python} .venv/bin/python -m jaxator.cli "$@"; }

sed -n 's/^\$ \(jaxator layout draw .*docs\/figures\/.*\)$/\1/p' docs/layouts.md | while read -r command; do
  echo "$command"
  eval "$command" </dev/null
done
