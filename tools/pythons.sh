# Sourced: which Pythons this machine has.

# Paths that may be a Python, one a line; nothing is run. The project's own .venv is left out, should it be active.
python_candidates() {
  local name
  {
    for name in python3.{15..11} python3; do type -aP "$name" || true; done
    compgen -G "${HOME:-/root}/.pyenv/versions/*/bin/python3" || true
  } | grep -v "^$PWD/.venv/" || true
}

# "VERSION PATH" of each release >= 3.11 that can make a virtual environment, newest first. Each candidate is run: a shim may
# name a Python that is not there. A Python in a virtual environment counts as the one that it was made from.
working_pythons() {
  python_candidates | while read -r candidate; do
    "$candidate" -c '
import ensurepip, os, sys, sysconfig, venv
if sys.version_info >= (3, 11) and sys.version_info.releaselevel == "final" and not sysconfig.get_config_var("Py_GIL_DISABLED"):
    print("%d.%d.%d" % sys.version_info[:3], os.path.realpath(sys.executable))' 2>/dev/null </dev/null || true
  done | sort -u | sort -s -t. -k1,1nr -k2,2nr -k3,3nr
}
