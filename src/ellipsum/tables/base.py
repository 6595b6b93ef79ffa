"""What a source of rows is, and what every kind of source shares: choice of columns, sealed errors, chains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, EllipsumError, UsageError

Block = NDArray[np.float64] | NDArray[np.float32]
Progress = Callable[[float], None]
T = TypeVar("T")

_BLOCK_CELLS = 655_360  # 5 MB of float64: large enough to hide a call's cost, small enough for the cache
_LISTED_NAMES = 40


class Table(Protocol):
    """A source of rows that can be read in blocks, usually as often as wanted.

    columns: a name for each entry of a row, or None where the source has no names
    width: entries in a row
    reopenable: False if `batches` may be called once only
    """

    @property
    def columns(self) -> tuple[str, ...] | None: ...
    @property
    def width(self) -> int: ...
    @property
    def reopenable(self) -> bool: ...

    def rows(self) -> int:
        """Exactly the number of rows that `batches` delivers, without delivering them."""

    def batches(self, progress: Progress | None = None) -> Iterator[Block]:
        """All rows in order, as blocks (r, width) of float64 or float32; a missing entry is NaN."""


class SourceTable(Table, Protocol):
    """A table that knows what its source offered and what was taken of it."""

    @property
    def available(self) -> tuple[str, ...] | None: ...
    @property
    def chosen(self) -> tuple[str, ...] | None: ...


def block_rows(width: int) -> int:
    """Rows in one block: bounded memory whatever the width."""
    return max(256, min(65_536, _BLOCK_CELLS // max(width, 1)))


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


def _listing(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_LISTED_NAMES]))
    rest = len(names) - _LISTED_NAMES
    return shown + (f" and {rest} more" if rest > 0 else "")


def as_names(columns: Any) -> tuple[Any, ...] | None:
    """The `columns` argument as a tuple; one name alone is a tuple of one."""
    if columns is None:
        return None
    if isinstance(columns, (str, int, np.integer)):
        return (columns,)
    try:
        return tuple(columns)
    except TypeError:
        kind = type(columns).__name__
        raise UsageError(f"columns must be a list of column names, got {kind}.") from None


def _reject_repeats(names: Sequence[str], where: str) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise UsageError(f"columns names {_listing(repeated)} more than once for {where}. Name each once.")


def _places(available: Sequence[str]) -> dict[str, list[int]]:
    """Every name with all its positions."""
    found: dict[str, list[int]] = {}
    for i, name in enumerate(available):
        found.setdefault(name, []).append(i)
    return found


def _locate(known: dict[str, list[int]], name: str, where: str, argument: str) -> int:
    places = known.get(name, [])
    if not places:
        available = [other for other, positions in known.items() for _ in positions]
        raise UsageError(f"{argument} names {name!r}, which {where} lacks. It has {_listing(available)}.")
    if len(places) > 1:
        raise UsageError(f"{where} has {len(places)} columns called {name!r}. Rename them, or choose others.")
    return places[0]


def choose(available: Sequence[str], columns: Any, exclude: Iterable[Any], where: str) -> tuple[int, ...]:
    """Positions of the wanted columns, in the wanted order: `columns`, or all but `exclude`.

    Depends on names alone [T1]. Unknown, repeated and ambiguous names are usage errors.
    """
    known = _places(available)
    left_out = {_locate(known, str(name), where, "exclude") for name in exclude}
    wanted = as_names(columns)
    if wanted is None:
        kept = [i for i in range(len(available)) if i not in left_out]
        names = [available[i] for i in kept]
    else:
        names = [str(name) for name in wanted]
        _reject_repeats(names, where)
    if not names:
        raise UsageError(f"No column of {where} is left to use. Name at least one in columns.")
    return tuple(_locate(known, name, where, "columns") for name in names)


def single_pass(where: str) -> UsageError:
    """The error of a one-shot source that is asked for a second pass."""
    return UsageError(
        f"{where} serves a single pass, and it has been taken. Pass an array, a table, a file or a list of batches."
    )


class Chain:
    """Several tables of the same columns, read one after the other."""

    def __init__(self, parts: Sequence[Table], weights: Sequence[float]) -> None:
        self.parts = tuple(parts)
        self.columns = parts[0].columns
        self.width = parts[0].width
        self.reopenable = all(part.reopenable for part in parts)
        self._weights = [max(float(weight), 1.0) for weight in weights]

    def rows(self) -> int:
        return sum(part.rows() for part in self.parts)

    def batches(self, progress: Progress | None = None) -> Iterator[Block]:
        total, before = sum(self._weights), 0.0
        for part, weight in zip(self.parts, self._weights, strict=True):
            yield from part.batches(None if progress is None else _share(progress, before, weight, total))
            before += weight


def _share(progress: Progress, before: float, weight: float, total: float) -> Progress:
    return lambda fraction: progress((before + weight * fraction) / total)
