"""Errors of foreign code are replaced, and what may change while it is read is watched or copied. [T5] [T8]"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from ..errors import DataError, EllipsumError, UsageError
from .protocol import Piece

T = TypeVar("T")


def attempt(message: str, call: Callable[..., T], *arguments: Any) -> T:
    """call(*arguments), with any foreign exception replaced by DataError(message) [T5].

    The new error is raised after the handler has ended: neither its cause nor its context holds the old one.
    """
    try:
        return call(*arguments)
    except EllipsumError:
        raise
    except Exception:  # whatever it says may quote a cell
        pass
    raise DataError(message)


def sealed(message: str, items: Iterable[T]) -> Iterator[T]:
    """The items, with any foreign exception raised between them replaced as in `attempt` [T5]."""
    end = object()
    iterator = attempt(message, iter, items)
    item: Any
    while (item := attempt(message, next, iterator, end)) is not end:
        yield item


def interruptible(call: Callable[[], T]) -> T:
    """call() into DuckDB, which turns Ctrl-C into an error of its own: turned back."""
    try:
        return call()
    except Exception as error:
        if "interrupted" not in str(error).lower():
            raise
    raise KeyboardInterrupt


class Watch:
    """A file that must stay as it was when it was opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._stamp()

    def _stamp(self) -> tuple[int, int, int]:
        status = attempt(f"{self._path} could not be read.", self._path.stat)
        return status.st_size, status.st_mtime_ns, status.st_ino

    def check(self) -> None:
        """A data error if the file is gone or another one now."""
        if self._stamp() != self._seen:
            raise DataError(f"{self._path} changed while it was being read. Nothing was published: try again.")


def single_pass(where: str) -> UsageError:
    """The error of a one-shot source that is asked for a second pass."""
    return UsageError(
        f"{where} serves a single pass, and it has been taken. Pass an array, a table, a file or a list of batches."
    )


def own_copy(piece: Piece) -> Piece:
    """The piece in memory of its own: rows are read later, in other threads, and must not change meanwhile."""
    import pyarrow as pa

    keys, block = piece
    if keys is not None:
        keys = keys.copy_to(pa.default_cpu_memory_manager())
    return keys, block.copy()
