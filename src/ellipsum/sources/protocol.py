"""What can be asked of rows, wherever they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from ..errors import Floats
from ..kernels.accumulate import Partial
from ..request.people import People
from ..row_maps.maps import RowMap
from .block_work import BlockWork, Result
from .progress import Progress

if TYPE_CHECKING:
    from ..request.groups import Listed
    from .group_sums import GroupSums


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

    def sampled(self, rate: float, seed: bytes, progress: Progress | None = None) -> tuple[Source, int]:
        """A source in memory that has each row by a coin of its own, and how many rows were read [T10].

        Only where the rows are local.
        """

    def every(self) -> Floats:
        """All rows, in order where the source is ordered."""

    def grouped(self, people: People) -> Source:
        """One row for each person, made where the rows are [T6]; to be closed after use."""

    def grouped_by(self, people: People, most: int, listed: Listed | None) -> Source:
        """One row for each person and group, at most so many groups of a person [G4]; to be closed after use."""

    def recentered(self, listed: Listed, offsets: Floats) -> Source:
        """The same rows, each less the offset of its group [G10]; only where the rows are local."""

    def total_by(
        self, row_map: RowMap, listed: Listed | None, threads: int | None = None, progress: Progress | None = None
    ) -> GroupSums:
        """The exact sums of a row map's integer rows in each group: those listed, or all that occur [G5]."""

    def close(self) -> None:
        """Give back what is kept for this source: temporary files, an engine's caches."""
