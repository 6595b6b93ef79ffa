"""The one way to compile: kept in numba's cache where that works, in memory where it does not.

A folder that cannot be written, a full disk or a damaged cache cost the time to compile again, never a run.
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
import numba.core.caching
import numba.core.runtime

_Function = TypeVar("_Function", bound=Callable[..., Any])

caching: Any = numba.core.caching  # its types say nothing useful here
runtime: Any = numba.core.runtime
njit: Any = numba.njit
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_SEAL_BYTES = 32


def compiled(function: _Function) -> _Function:
    """numba's compiler: cached where a cache can be written, releasing the GIL, never reordering floats."""
    dispatcher = njit(**_OPTIONS)(function)
    with suppress(Exception):  # no folder can be written: compiled anew in every process
        dispatcher._cache = _Cache(function)
    return cast(_Function, dispatcher)


def inner(function: _Function) -> _Function:
    """As compiled, for functions that only compiled functions call."""
    return cast(_Function, njit(no_cpython_wrapper=True, **_OPTIONS)(function))


class _SealedFile(caching.IndexDataCacheFile):  # type: ignore[misc]
    """numba's files, where code that is not as it was written counts as absent."""

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except Exception:
            return {}

    def _save_data(self, name: str, data: Any) -> None:
        content = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(sha256(content).digest() + content)

    def _load_data(self, name: str) -> Any:
        sealed = Path(self._data_path(name)).read_bytes()
        seal, content = sealed[:_SEAL_BYTES], sealed[_SEAL_BYTES:]
        if sha256(content).digest() != seal:
            raise OSError("damaged")  # what numba expects of a file that is gone
        return caching.pickle.loads(content)


def _stamp_of_parts(function: Callable[..., Any]) -> tuple[tuple[str, int, int], ...]:
    """Every module beside the function's own, and the kernels: compiled functions are made of each other's parts."""
    folders = {Path(function.__code__.co_filename).parent, Path(__file__).parents[1] / "kernels"}
    return tuple(stamp for folder in sorted(folders) for stamp in _stamps(folder))


@cache
def _stamps(folder: Path) -> list[tuple[str, int, int]]:
    modules = [(path.name, path.stat()) for path in sorted(folder.glob("*.py"))]
    return [(name, stat.st_mtime_ns, stat.st_size) for name, stat in modules]


class _Cache(caching.FunctionCache):  # type: ignore[misc]
    """numba's cache, whose failures only mean that it does not help."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = (self._impl.locator.get_source_stamp(), _stamp_of_parts(function))
        self._cache_file = _SealedFile(self.cache_path, self._impl.filename_base, stamp)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """As numba's, without all that only compiling needs: importing it takes longer than a small release."""
        try:
            runtime.rtsys.initialize(target)
            return self._load_overload(signature, target)
        except Exception:
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        with suppress(Exception):
            super().save_overload(signature, result)


def say_that_it_compiles(first: Any) -> None:
    """One line to a person who waits, before the first compilation on a machine; `first` is compiled before others."""
    folder = first.stats.cache_path
    if not ("ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())):
        return
    if folder is None:
        print("ellipsum compiles for some seconds. Set NUMBA_CACHE_DIR: it can then do so once.", file=sys.stderr)
    elif not any(Path(folder).glob(f"{first.__module__.rpartition('.')[2]}.{first.__name__}-*.nbi")):
        print("ellipsum compiles for some seconds, this once.", file=sys.stderr)
