"""Other interpreters that serve this one through their standard input and output."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from typing import Any


def started(module: str, **how: Any) -> subprocess.Popen[Any]:
    """A new interpreter, with the same path, in which the module's `serve` runs."""
    path = [place for place in sys.path if isinstance(place, str)]
    code = f"import sys; sys.path[:] = {path!r}; from {module} import serve; serve()"
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, **how)


def ended(process: subprocess.Popen[Any]) -> None:
    """Whatever it is at, it ends, and its pipes are closed."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # the other end is gone
                pipe.close()
