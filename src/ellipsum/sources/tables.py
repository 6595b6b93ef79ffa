"""What a source of rows is, and what every kind of source shares: choice of columns, sealed errors, chains."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, EllipsumError, UsageError, listing, named
from ..kernels.blocks import Columns
from .progress import Progress, share
from .selection import Selection

Block = NDArray[np.float64] | NDArray[np.float32] | Columns
Piece = tuple[Any, Block]
"""Who the rows belong to (`keys.Keys`, or None where nobody asked; with groups, `labels.Labels`), and the rows."""
Part = Callable[[], Iterator[Piece]]
"""Reads some rows of a table, independently of its other parts."""
T = TypeVar("T")

_BLOCK_CELLS = 655_360  # 5 MB of float64: large enough to hide a call's cost, small enough for the cache
SIZED = re.compile(r"(.+)\[([1-9][0-9]*)\]", re.DOTALL)


class Table(Protocol):
    """A source of rows that can be read in blocks, usually as often as wanted.

    columns: a name for each entry of a row, or None where the source has no names
    width: entries in a row
    gaps: for each entry of a row, whether it can be missing by its type
    reopenable: False if `batches` may be called once only
    ordered: whether a row's place is a function of public things, so that it may decide what is done with the row [T9]
    """

    @property
    def columns(self) -> tuple[str, ...] | None: ...
    @property
    def width(self) -> int: ...
    @property
    def gaps(self) -> tuple[bool, ...]: ...
    @property
    def reopenable(self) -> bool: ...
    @property
    def ordered(self) -> bool: ...

    def rows(self) -> int:
        """Exactly the number of rows that `batches` delivers, without delivering them."""

    def batches(self, progress: Progress | None = None) -> Iterator[Block]:
        """All rows in order, as blocks (r, width) of float64 or float32; a missing entry is NaN."""


class SourceTable(Table, Protocol):
    """A table that knows what its source offered, what was taken of it and, if asked, the person each row belongs to.

    chosen: what `columns` has to say to take the same again
    key: the kind of identities (`keys.key_kind`) where the source was opened with a key, else None
    by: the kinds of the columns that name groups (`labels.label_kind`)
    """

    @property
    def available(self) -> tuple[str, ...] | None: ...
    @property
    def chosen(self) -> tuple[str, ...] | None: ...
    @property
    def key(self) -> str | None: ...
    @property
    def by(self) -> tuple[str, ...]: ...

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        """As `batches`, with the identities of the rows."""

    def parts(self) -> list[Part]:
        """Ways to read parts of the rows independently of each other; none where there is only one way."""


class Batches:
    """`batches` for tables that deliver pieces."""

    by: tuple[str, ...] = ()

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        raise NotImplementedError

    def batches(self, progress: Progress | None = None) -> Iterator[Block]:
        """All rows in order, as blocks (r, width) of float64 or float32; a missing entry is NaN."""
        return _without_keys(self.pieces(progress))

    def parts(self) -> list[Part]:
        return []


def _without_keys(pieces: Iterator[Piece]) -> Iterator[Block]:
    with closing(pieces):  # type: ignore[type-var]  # every table's pieces come from a generator
        for _, block in pieces:
            yield block


def own_copy(piece: Piece) -> Piece:
    """The piece in memory of its own: rows are read later, in other threads, and must not change meanwhile."""
    import pyarrow as pa

    keys, block = piece
    if keys is not None:
        keys = keys.copy_to(pa.default_cpu_memory_manager())
    return keys, block.copy()


def block_rows(width: int, cells: int = _BLOCK_CELLS) -> int:
    """Rows in one block of about so many cells: bounded memory whatever the width."""
    return max(256, min(cells // 10, cells // max(width, 1)))


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
        raise UsageError(f"columns names {listing(repeated)} more than once for {where}. Name each once.")


def _places(available: Sequence[str]) -> dict[str, list[int]]:
    """Every name with all its positions."""
    places: dict[str, list[int]] = {}
    for i, name in enumerate(available):
        places.setdefault(name, []).append(i)
    return places


def _locate(known: dict[str, list[int]], name: str, where: str, argument: str) -> int:
    places = known.get(name, [])
    if not places:
        available = [other for other, positions in known.items() for _ in positions]
        raise UsageError(f"{argument} names {named(name)}, which {where} lacks. It has {listing(available)}.")
    if len(places) > 1:
        raise UsageError(f"{where} has {len(places)} columns called {named(name)}. Rename them, or choose others.")
    return places[0]


def choose(available: Sequence[str], columns: Any, beside: Sequence[int], where: str) -> tuple[int, ...]:
    """Positions of the wanted columns, in the wanted order: `columns`, or all but those beside.

    Depends on names alone [T1]. Unknown, repeated and ambiguous names are usage errors.
    """
    known = _places(available)
    wanted = as_names(columns)
    if wanted is None:
        kept = [i for i in range(len(available)) if i not in beside]
        names = [available[i] for i in kept]
    else:
        names = [str(name) for name in wanted]
        _reject_repeats(names, where)
    if not names:
        raise UsageError(f"No column of {where} is left to use. Name at least one in columns.")
    return tuple(_locate(known, name, where, "columns") for name in names)


class Pick(NamedTuple):
    """What is taken of a source: the places of its columns, key and groups, and the length that a list must have."""

    places: tuple[int, ...]
    key: int | None
    size: int | None
    chosen: tuple[str, ...]
    by: tuple[int, ...] = ()

    @property
    def beside(self) -> tuple[int, ...]:
        """Places that are read beside the rows: of groups, then of the key."""
        return self.by if self.key is None else (*self.by, self.key)

    @property
    def all(self) -> tuple[int, ...]:
        return (*self.places, *self.beside)


def pick(available: Sequence[str], selection: Selection, where: str) -> Pick:
    """`choose`, with the key, which is no column of a row; `name[k]` declares the lists of a column to be k long."""
    key = selection.key
    wanted, size, chosen = as_names(selection.named().columns), None, None
    if wanted is not None and len(wanted) == 1 and str(wanted[0]) not in available:
        sized = SIZED.fullmatch(str(wanted[0]))
        if sized is not None and sized[1] in available:
            wanted, size, chosen = (sized[1],), int(sized[2]), (str(wanted[0]),)
    place = None if key is None else _locate(_places(available), str(key), where, "privacy_id")
    if place is not None and wanted is not None and str(key) in map(str, wanted):
        raise UsageError(f"privacy_id names {named(key)}, which is among columns. It names people: leave it out.")
    groups = _grouping(available, selection, wanted, where)
    if place in groups:
        raise UsageError(f"by and privacy_id both name {named(key)}. A person is no group: name another column.")
    places = choose(available, wanted, groups if place is None else (*groups, place), where)
    return Pick(places, place, size, chosen or tuple(available[i] for i in places), groups)


def _grouping(available: Sequence[str], selection: Selection, wanted: Any, where: str) -> tuple[int, ...]:
    """Positions of the columns that name groups."""
    names = [str(name) for name in selection.by]
    for name in names:
        if wanted is not None and name in map(str, wanted):
            raise UsageError(f"by names {named(name)}, which is among columns. It names groups: leave it out.")
    known = _places(available) if names else {}
    return tuple(_locate(known, name, where, "by") for name in names)


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


class Chain(Batches):
    """Several tables of the same columns, read one after the other; ordered: whether that order is public [T9]."""

    def __init__(self, tables: Sequence[SourceTable], weights: Sequence[float], ordered: bool = True) -> None:
        self.tables = tuple(tables)
        first = tables[0]
        self.columns, self.width, self.key, self.by = first.columns, first.width, first.key, first.by
        self.available, self.chosen = first.available, first.chosen
        self.gaps = tuple(map(any, zip(*(part.gaps for part in tables), strict=True)))
        self.reopenable = all(part.reopenable for part in tables)
        self.ordered = ordered and all(part.ordered for part in tables)
        self._weights = [max(float(weight), 1.0) for weight in weights]

    def rows(self) -> int:
        return sum(part.rows() for part in self.tables)

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        total, before = sum(self._weights), 0.0
        for part, weight in zip(self.tables, self._weights, strict=True):
            yield from part.pieces(share(progress, before / total, (before + weight) / total))
            before += weight
