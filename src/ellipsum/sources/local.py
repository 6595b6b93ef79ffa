"""Tables: sources that this process reads itself, in blocks of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from ..errors import Floats, UsageError
from ..kernels.accumulate import Partial, accumulate
from ..kernels.blocks import Block, floats
from ..noise import public_subset
from ..numerics.wide_integers import Ints
from ..row_maps.maps import RowMap
from ..util.threads import map_ahead
from .protocol import BlockWork, Progress, Result

if TYPE_CHECKING:
    import pyarrow as pa

    from ..request.groups import Listed
    from .group_sums import GroupSums

Piece = tuple["pa.Array | None", Block]
"""Some rows and the cells beside them: None, identities, or a struct of group labels and, last, any identities."""
PieceReader = Callable[[], Iterator[Piece]]
RowReader = Callable[[Ints], Block]
"""Reads the rows at any positions, in the order of the positions."""
_BLOCK_CELLS = 655_360  # 5 MB of float64: large enough to hide the cost of a call, small enough for the cache


def block_rows(width: int, cells: int = _BLOCK_CELLS) -> int:
    """The number of rows in a block of about this many cells, so that memory is bounded for every width."""
    return max(256, min(cells // 10, cells // max(width, 1)))


class Table(ABC):
    """A source that this process reads in blocks of rows, usually as often as needed.

    It has these attributes in addition to those of a `Source`. available: the names of all columns. chosen: the
    `columns` argument that selects the same columns again. key: the kind of identities (`identities.key_kind`) if the
    source was opened with a column of identities, else None.
    """

    local = True
    columns: tuple[str, ...] | None = None
    width: int
    nullable: tuple[bool, ...]
    available: tuple[str, ...] | None = None
    chosen: tuple[str, ...] | None = None
    key: str | None = None
    by: tuple[str, ...] = ()
    reopenable: bool = True
    ordered: bool = False
    _rows: int | None = None
    _was_read: bool = False

    @abstractmethod
    def _read(self, progress: Progress | None) -> Iterator[Piece]:
        """Yield all rows in order. `progress` is passed only if the number of rows is not known."""

    def _count(self) -> int:
        """Count the rows in the cheapest way that this kind of table has."""
        return sum(map(len, self.batches()))

    def row_groups(self) -> list[PieceReader]:
        """Readers of consecutive parts of a file that can be decoded in parallel; none for other tables."""
        return []

    def row_reader(self) -> RowReader | None:
        """What reads rows of a table in memory at any positions; None for other tables."""
        return None

    @property
    def known_rows(self) -> int | None:
        """The number of rows, if it is known without reading them."""
        return self._rows

    def rows(self) -> int:
        """The exact number of rows."""
        if self._rows is None:
            if not self.reopenable:
                raise UsageError(
                    "The number of rows of a one-shot source is known only after it was read. Pass a table or a file."
                )
            self._rows = self._count()
        return self._rows

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        """All rows in order, with the cells that identify their groups or people."""
        if self._was_read and not self.reopenable:
            raise UsageError(
                "This source can be read only once, and it was read before. Pass an array, a table, a file or a list "
                "of batches."
            )
        self._was_read = True
        return self._counted(progress)

    def _counted(self, progress: Progress | None) -> Iterator[Piece]:
        """The pieces of one pass, which also counts the rows."""
        total, rows = self._rows, 0
        with closing(self._read(progress if total is None else None)) as pieces:  # type: ignore[type-var]
            for piece in pieces:
                rows += len(piece[1])
                yield piece
                if progress is not None and total:
                    progress(min(1.0, rows / total))
        self._rows = rows

    def batches(self, progress: Progress | None = None) -> Iterator[Block]:
        """All rows in order, as blocks (rows, width) of float64 or float32. A missing value is a NaN."""
        return (block for _, block in self.pieces(progress))

    def _describe_like(self, other: Table) -> None:
        """Take the description of the columns from another table."""
        self.columns, self.width, self.nullable = other.columns, other.width, other.nullable
        self.available, self.chosen = other.available, other.chosen
        self.key, self.by = other.key, other.by

    def count(self) -> int:
        return self.rows()

    def total(self, row_map: RowMap, threads: int | None = None, progress: Progress | None = None) -> Partial:
        return accumulate(row_map, self.batches(progress), threads)

    def total_by(
        self, row_map: RowMap, listed: Listed | None, threads: int | None = None, progress: Progress | None = None
    ) -> GroupSums:
        from .group_codes import key_table
        from .group_sums import add_groups

        return add_groups(row_map, self.pieces(progress), key_table(self.by, listed), threads)

    def each(self, work: BlockWork[Result], most_rows: int, progress: Progress | None = None) -> Iterator[Result]:
        blocks = self.batches(progress)
        parts = (block[start : start + most_rows] for block in blocks for start in range(0, len(block), most_rows))
        return map_ahead(work, parts)

    def sample(self, size: int, seed: bytes) -> tuple[Floats, int]:
        if not self.reopenable:  # the number of rows is known only after the single pass
            rows = self.every()
            return rows[public_subset(seed, len(rows), min(size, len(rows)))], len(rows)
        count = self.count()
        return self._rows_at(public_subset(seed, count, size) if count > size else None), count

    def every(self) -> Floats:
        return self._rows_at(None)

    def _rows_at(self, places: Ints | None) -> Floats:
        """The rows at increasing places, or all rows."""
        parts, begin = [np.empty((0, self.width))], 0
        for block in self.batches():
            if places is None:
                parts.append(floats(block, copy=True))
            else:
                inside = places[np.searchsorted(places, begin) : np.searchsorted(places, begin + len(block))]
                parts.append(floats(block[inside - begin]))
            begin += len(block)
        return np.concatenate(parts)

    def close(self) -> None:  # noqa: B027 (most tables keep nothing)
        """Remove what is kept for this table."""
