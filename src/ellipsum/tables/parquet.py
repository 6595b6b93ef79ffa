"""Parquet files: row groups decoded side by side, the chosen columns alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from .ahead import chain_ahead, workers
from .arrow import layout, to_block
from .base import Block, Progress, attempt, block_rows, choose, sealed

_PAGE_BUFFER = 1 << 20


class ParquetTable:
    """The numbers of some columns of a Parquet file; the row count comes from its footer."""

    reopenable = True

    def __init__(self, path: Path, columns: Any = None, exclude: Iterable[Any] = ()) -> None:
        self._path = path
        self._unreadable = f"{path} could not be read as a Parquet file (damaged, cut short or of another format)."
        schema, self._rows, self._groups = attempt(self._unreadable, self._footer)
        self.available = tuple(schema.names)
        places = choose(self.available, columns, exclude, str(path))
        self._plan = layout(schema, places, str(path))
        self.chosen = self._plan.names
        self.columns = self._plan.columns
        self.width = self._plan.width

    def _footer(self) -> tuple[Any, int, int]:
        from pyarrow import parquet

        with parquet.ParquetFile(self._path) as file:
            return file.schema_arrow, file.metadata.num_rows, file.num_row_groups

    def rows(self) -> int:
        return self._rows

    def _group(self, index: int) -> Iterator[Block]:
        from pyarrow import parquet

        # Buffered pages: memory stays bounded even where one row group holds the whole file.
        with parquet.ParquetFile(self._path, buffer_size=_PAGE_BUFFER, pre_buffer=False) as file:
            batches = file.iter_batches(
                batch_size=block_rows(self.width),
                row_groups=[index],
                columns=list(self.chosen),
                use_threads=self._groups < workers(),
            )
            for batch in batches:
                yield to_block([batch.column(name) for name in self.chosen], self._plan)

    def _sealed_group(self, index: int) -> Iterator[Block]:
        return sealed(self._unreadable, self._group(index))

    def batches(self, progress: Progress | None = None) -> Iterator[Block]:
        rows = 0
        groups: list[Callable[[], Iterator[Block]]] = [partial(self._sealed_group, g) for g in range(self._groups)]
        for block in chain_ahead(groups):
            rows += len(block)
            yield block
            if progress is not None:
                progress(min(1.0, rows / max(self._rows, 1)))
