"""What can be asked of rows, wherever they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ..accumulate import Partial
from ..errors import Floats
from ..people import People
from ..row_maps import RowMap
from ..tables import Progress
from ..work import BlockWork, Result


class Source(Protocol):
    """Rows of numbers, somewhere; a missing entry is a NaN.

    columns: a name for each entry of a row, or None where there are no names. width: entries in a row.
    reopenable: False if the rows can be read once only. local: whether the rows are within this process's reach.
    ordered: whether a row's place is a function of public things, so that it may decide what is done with it [T9].
    gaps: for each entry of a row, whether it can be missing by its type; whether it ever is, is the data's own.
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

    def close(self) -> None:
        """Give back what is kept for this source: temporary files, an engine's caches."""
