"""Parquet files: row groups decoded side by side, the chosen columns alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .arrow import planned, to_piece
from .progress import Progress
from .read_ahead import chain_ahead, workers
from .selection import EVERYTHING, Selection
from .tables import (
    Batches,
    Part,
    Piece,
    Watch,
    attempt,
    block_rows,
    pick,
    sealed,
)

_PAGE_BUFFER = 1 << 20
_BATCH_CELLS = 2_621_440  # 20 MB of float64: starting a batch costs pyarrow as much as decoding some thousand rows


class ParquetTable(Batches):
    """The numbers of some columns of a Parquet file; the row count comes from its footer."""

    reopenable = True
    ordered = True

    def __init__(self, path: Path, selection: Selection = EVERYTHING) -> None:
        self._path = path
        self._watch = Watch(path)
        self._unreadable = f"{path} could not be read as a Parquet file (damaged, cut short or of another format)."
        schema, self._rows, self._groups = attempt(self._unreadable, self._footer)
        self.available = attempt(self._unreadable, lambda: tuple(schema.names))  # a damaged name is no text
        chosen = pick(self.available, selection, str(path))
        self._plan = attempt(self._unreadable, planned, schema, chosen, str(path))
        self._read_names = [*self._plan.names, *(self.available[place] for place in chosen.beside)]
        self.chosen, self.key, self.by = chosen.chosen, self._plan.key, self._plan.by
        self.columns, self.width = self._plan.columns, self._plan.width
        self.gaps = self._plan.gaps

    def _footer(self) -> tuple[Any, int, int]:
        from pyarrow import parquet

        with parquet.ParquetFile(self._path) as file:
            return file.schema_arrow, file.metadata.num_rows, file.num_row_groups

    def rows(self) -> int:
        return self._rows

    def _group(self, index: int, threaded: bool) -> Iterator[Piece]:
        from pyarrow import parquet

        self._watch.check()
        # Buffered pages: memory stays bounded even where one row group holds the whole file.
        with parquet.ParquetFile(self._path, buffer_size=_PAGE_BUFFER, pre_buffer=False) as file:
            batches = file.iter_batches(
                batch_size=block_rows(self.width, _BATCH_CELLS),
                row_groups=[index],
                columns=self._read_names,
                use_threads=threaded,
            )
            for batch in batches:
                yield to_piece([batch.column(name) for name in self._read_names], self._plan)
        self._watch.check()

    @property
    def groups(self) -> int:
        """Row groups of the file."""
        return self._groups

    def part(self, index: int, threaded: bool) -> Iterator[Piece]:
        """The rows of one row group; threaded: its columns are decoded side by side."""
        return sealed(self._unreadable, self._group(index, threaded))

    def parts(self) -> list[Part]:
        return parts_of([self])

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        return side_by_side([self], progress)


def parts_of(tables: Sequence[ParquetTable]) -> list[Part]:
    """A reader for each row group of one file or many, in order; they may run side by side."""
    threaded = sum(table.groups for table in tables) < workers()
    return [partial(table.part, index, threaded) for table in tables for index in range(table.groups)]


def side_by_side(tables: Sequence[ParquetTable], progress: Progress | None = None) -> Iterator[Piece]:
    """The row groups of one file or many, a few decoded at a time, handed over in order."""
    rows, total = 0, max(sum(table.rows() for table in tables), 1)
    for piece in chain_ahead(parts_of(tables)):
        rows += len(piece[1])
        yield piece
        if progress is not None:
            progress(min(1.0, rows / total))
