"""Downloads one jaxlib package and keeps its FFI headers: `fetch_xla_headers.py VERSION FOLDER`."""

import pathlib
import subprocess
import sys
import tempfile
import zipfile


def main(version: str, folder: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        # The headers do not depend on the Python version; 3.11 is one that the package was built for.
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--python-version=3.11",
             f"--dest={temporary}", f"jaxlib=={version}"],
            check=True,
        )
        (wheel,) = pathlib.Path(temporary).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.startswith("jaxlib/include/")])


if __name__ == "__main__":
    main(*sys.argv[1:])
