"""Downloads one jaxlib package and keeps its FFI headers: `fetch_xla_headers.py VERSION FOLDER`."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile


def main(version: str, folder: str) -> None:
    target = pathlib.Path(folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
        # The headers do not depend on the Python version; 3.11 is one that the package was built for.
        options = "--quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version=3.11".split()
        command = [sys.executable, "-m", "pip", "download", *options, f"--dest={temporary}", f"jaxlib=={version}"]
        subprocess.run(command, check=True)
        (wheel,) = pathlib.Path(temporary).glob("*.whl")
        headers = pathlib.Path(temporary, "headers")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(headers, [name for name in archive.namelist() if name.startswith("jaxlib/include/")])
        # Put in place whole, so that an interrupted run leaves no half of it.
        shutil.rmtree(target, ignore_errors=True)
        headers.rename(target)


if __name__ == "__main__":
    main(*sys.argv[1:])
