#!/usr/bin/env python3
"""Builds the independent checker (porcupine/) with Go: build_porcupine.py OUT"""

import os
import pathlib
import shutil
import subprocess
import sys


def main():
    go = shutil.which("go")
    if go is None:
        sys.exit("go is missing (Debian: golang-go): the independent checker"
                 " of histories cannot be built")
    source = pathlib.Path(__file__).resolve().parent / "porcupine"
    # What go.mod says, with this very Go, whatever the user has set.
    environment = dict(os.environ, GOFLAGS="", GOWORK="off",
                       GOTOOLCHAIN="local", CGO_ENABLED="0")
    return subprocess.run([go, "build", "-mod=readonly", "-buildvcs=false",
                           "-o", sys.argv[1], "."], cwd=source,
                          env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
