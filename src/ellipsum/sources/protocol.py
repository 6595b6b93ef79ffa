"""What can be asked of rows, wherever they are, and of tables that this process reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..errors import Floats
from ..kernels.accumulate import Partial
from ..kernels.blocks import Block
from ..request.people import People
from ..row_maps.maps import RowMap
from .progress import Progress

if TYPE_CHECKING:
    from ..request.groups import Listed
    from .group_sums import GroupSums

Piece = tuple[Any, Block]
"""Who the rows belong to (`identities.Keys`, or None; with groups, `group_labels.Labels`), and the rows."""
Part = Callable[[], Iterator[Piece]]
"""Reads some rows of a table, independently of its other parts."""
_BLOCK_CELLS = 655_360  # 5 MB of float64: large enough to hide a call's cost, small enough for the cache


class Table(ABC):
    """A source of rows that this process reads in blocks, usually as often as wanted.

    columns: a name for each entry of a row, or None where the source has no names. width: entries in a row.
    available: the names of all its columns. chosen: what `columns` has to say to take the same again.
    gaps: for each entry of a row, whether it can be missing by its type.
    key: the kind of identities (`identities.key_kind`) where the source was opened with a key, else None.
    by: the kinds of the columns that name groups (`group_labels.label_kind`).
    reopenable: False if the rows can be read once only.
    ordered: whether a row's place is a function of public things, so that it may decide what is done with the row [T9].
    """

    columns: tuple[str, ...] | None = None
    width: int
    available: tuple[str, ...] | None = None
    chosen: tuple[str, ...] | None = None
    gaps: tuple[bool, ...]
    key: str | None = None
    by: tuple[str, ...] = ()
    reopenable: bool = True
    ordered: bool = False
    _rows: int | None = None

    @abstractmethod
    def rows(self) -> int:
        """Exactly the number of rows that `batches` delivers, without delivering them."""

    @abstractmethod
    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        """As `batches`, with the identities of the rows."""

    def batches(self, progress: Progress | None = None) -> Iterator[Block]:
        """All rows in order, as blocks (r, width) of float64 or float32; a missing entry is NaN."""
        return _without_keys(self.pieces(progress))

    def parts(self) -> list[Part]:
        """Ways to read parts of the rows independently of each other; none where there is only one way."""
        return []

    def _describe_like(self, other: Table) -> None:
        """Take over what another table says of its columns."""
        self.columns, self.width, self.gaps = other.columns, other.width, other.gaps
        self.available, self.chosen = other.available, other.chosen
        self.key, self.by = other.key, other.by

    def _counted(self, pieces: Iterable[Piece], progress: Progress | None = None) -> Iterator[Piece]:
        """The pieces of a whole pass: progress is told, and how many rows there were is remembered."""
        rows = 0
        for piece in pieces:
            rows += len(piece[1])
            yield piece
            if progress is not None and self._rows:
                progress(min(1.0, rows / self._rows))
        self._rows = rows


def _without_keys(pieces: Iterator[Piece]) -> Iterator[Block]:
    with closing(pieces):  # type: ignore[type-var]  # every table's pieces come from a generator
        for _, block in pieces:
            yield block


def block_rows(width: int, cells: int = _BLOCK_CELLS) -> int:
    """Rows in one block of about so many cells: bounded memory whatever the width."""
    return max(256, min(cells // 10, cells // max(width, 1)))


Result = TypeVar("Result")
_Made = TypeVar("_Made", covariant=True)


class BlockWork(Protocol[_Made]):
    """Work on a block of rows: it is pickled, and its results travel as bytes."""

    def __call__(self, block: Block) -> _Made: ...
    def packed(self, block: Block) -> bytes:
        """The result, for a journey."""

    def unpack(self, numbers: bytes) -> _Made:
        """Inverse of `packed`."""


class Source(Protocol):
    """Rows of numbers, somewhere; a missing entry is a NaN.

    columns: a name for each entry of a row, or None where there are no names. width: entries in a row.
    reopenable: False if the rows can be read once only. local: whether the rows are within this process's reach.
    ordered: whether a row's place is a function of public things, so that it may decide what is done with it [T9].
    gaps: for each entry of a row, whether it can be missing by its type; whether it ever is, is the data's own.
    by: the kinds of the columns that name a row's group; none where nobody asked.
    """

    @property
    def columns(self) -> tuple[str, ...] | None: ...
    @property
    def width(self) -> int: ...
    @property
    def gaps(self) -> tuple[bool, ...]: ...
    @property
    def by(self) -> tuple[str, ...]: ...
    @property
    def reopenable(self) -> bool: ...
    @property
    def ordered(self) -> bool: ...
    @property
    def local(self) -> bool: ...

    def count(self) -> int:
        """The exact number of rows, or of people where rows were brought together: public under "replace" only."""

    def total(self, row_map: RowMap, threads: int | None = None, progress: Progress | None = None) -> Partial:
        """The exact sum of a row map's integer rows [S5]."""

    def each(self, work: BlockWork[Result], most_rows: int, progress: Progress | None = None) -> Iterator[Result]:
        """work(block) for blocks that hold every row once, in order where the source is ordered."""

    def sample(self, size: int, seed: bytes) -> tuple[Floats, int]:
        """A uniform subset of `size` rows (all, where there are no more), and how many rows there are [F7][S6]."""

    def every(self) -> Floats:
        """All rows, in order where the source is ordered."""

    def grouped(self, people: People) -> Source:
        """One row for each person, made where the rows are [T6]; to be closed after use."""

    def grouped_by(self, people: People, most: int, listed: Listed | None) -> Source:
        """One row for each person and group, at most so many groups of a person [G4]; to be closed after use."""

    def total_by(
        self, row_map: RowMap, listed: Listed | None, threads: int | None = None, progress: Progress | None = None
    ) -> GroupSums:
        """The exact sums of a row map's integer rows in each group: those listed, or all that occur [G5]."""

    def close(self) -> None:
        """Give back what is kept for this source: temporary files, an engine's caches."""
