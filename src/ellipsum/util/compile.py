"""The one way to compile: with numba's cache if it works, in memory otherwise.

If a folder cannot be written, a disk is full or a cache is damaged, functions are compiled again and nothing fails.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numba.core.runtime

_Function = TypeVar("_Function", bound=Callable[..., Any])

njit: Any = numba.njit  # numba's objects have no types of use here
runtime: Any = numba.core.runtime
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def compiled(function: _Function) -> _Function:
    """Compile with numba: cached if a cache can be written, releasing the GIL, never reordering floats."""
    dispatcher = njit(**_OPTIONS)(function)
    with suppress(Exception):  # no folder can be written: every process compiles
        dispatcher.enable_caching()
        dispatcher._cache = _SealedCache(dispatcher._cache, function)
    return cast(_Function, dispatcher)


def inner(function: _Function) -> _Function:
    """As `compiled`, for functions that only compiled functions call."""
    return cast(_Function, njit(no_cpython_wrapper=True, **_OPTIONS)(function))


class _SealedCache:
    """numba's cache with a seal: numba itself would run damaged files, and code of older modules."""

    def __init__(self, files: Any, function: Callable[..., Any]) -> None:
        self._files, self._code = files, function.__code__
        name = f"{Path(self._code.co_filename).stem}.{function.__qualname__}-{self._code.co_firstlineno}"
        self._pattern, self._seal = f"{name}.*.nb[ic]", Path(files.cache_path) / f"{name}.seal"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def load_overload(self, signature: Any, target: Any) -> Any:
        with suppress(Exception):  # a cache that cannot be read is not used
            if self._is_intact():
                # The public method prepares for compiling, too: importing that takes longer than a small release.
                runtime.rtsys.initialize(target)
                return self._files._load_overload(signature, target)
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        with suppress(Exception):  # nor is one that cannot be written
            if not self._is_intact():
                for path in self._paths():
                    path.unlink(missing_ok=True)
            self._files.save_overload(signature, result)
            self._seal.write_bytes(self._digest())

    def _is_intact(self) -> bool:
        return self._seal.exists() and self._seal.read_bytes() == self._digest()

    def _paths(self) -> list[Path]:
        return sorted(self._seal.parent.glob(self._pattern))

    def _digest(self) -> bytes:
        """The digest of the files, and of the modules that compiled functions come from."""
        stamps = _stamp_modules(Path(self._code.co_filename).parent) + _stamp_modules(_KERNELS)
        return sha256(repr(stamps).encode() + b"".join(path.read_bytes() for path in self._paths())).digest()


_KERNELS = Path(__file__).parents[1] / "kernels"


@cache
def _stamp_modules(folder: Path) -> list[tuple[str, int, int]]:
    modules = [(path.name, path.stat()) for path in sorted(folder.glob("*.py"))]
    return [(name, stat.st_mtime_ns, stat.st_size) for name, stat in modules]


def say_that_it_compiles(function: Callable[..., Any]) -> None:
    """Print one line to a person who waits before a module's first compilation; `function`: any one of the module."""
    if not ("ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())):
        return
    folder = cast(Any, function).stats.cache_path
    if folder is None:
        _say_once("ellipsum compiles for some seconds. Set NUMBA_CACHE_DIR, so that it does so once.")
    elif not any(Path(folder).glob(f"{function.__module__.rpartition('.')[2]}.*.nbi")):
        _say_once("ellipsum compiles for some seconds, only this time.")


@cache
def _say_once(text: str) -> None:
    print(text, file=sys.stderr)
