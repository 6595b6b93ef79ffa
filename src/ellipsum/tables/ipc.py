"""Feather and Arrow IPC files, in the file or the stream format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .ahead import chain_ahead
from .arrow import blocks, layout
from .base import Block, Progress, attempt, choose, sealed


class IpcTable:
    """The numbers of some columns of an Arrow IPC file, which is mapped into memory, not read into it."""

    reopenable = True

    def __init__(self, path: Path, columns: Any = None, exclude: Iterable[Any] = ()) -> None:
        self._path = path
        self._unreadable = f"{path} could not be read as an Arrow file (damaged, cut short or of another format)."
        self._is_stream = attempt(self._unreadable, self._starts_as_stream)
        schema = attempt(self._unreadable, self._schema)
        self.available = tuple(schema.names)
        self._places = choose(self.available, columns, exclude, str(path))
        self._plan = layout(schema, self._places, str(path))
        self.chosen = self._plan.names
        self.columns = self._plan.columns
        self.width = self._plan.width
        self._rows: int | None = None

    def _starts_as_stream(self) -> bool:
        with open(self._path, "rb") as file:
            return file.read(6) != b"ARROW1"

    def _schema(self) -> Any:
        import pyarrow as pa

        with pa.memory_map(str(self._path)) as file:
            reader = pa.ipc.open_stream(file) if self._is_stream else pa.ipc.open_file(file)
            return reader.schema

    def _batches(self, places: Iterable[int]) -> Iterator[Any]:
        """Record batches that hold the columns at these places, in file order."""
        import pyarrow as pa

        options = pa.ipc.IpcReadOptions(included_fields=sorted(places), use_threads=False)
        with pa.memory_map(str(self._path)) as file:
            if self._is_stream:
                yield from pa.ipc.open_stream(file, options=options)
                return
            reader = pa.ipc.open_file(file, options=options)
            for index in range(reader.num_record_batches):
                yield reader.get_batch(index)

    def rows(self) -> int:
        if self._rows is None:
            batches = sealed(self._unreadable, self._batches(self._places[:1]))
            self._rows = sum(batch.num_rows for batch in batches)
        return self._rows

    def _blocks(self) -> Iterator[Block]:
        kept = sorted(self._places)
        for batch in self._batches(self._places):
            batch.validate()
            yield from blocks(batch, [kept.index(place) for place in self._places], self._plan)

    def batches(self, progress: Progress | None = None) -> Iterator[Block]:
        rows = 0
        for block in chain_ahead([lambda: sealed(self._unreadable, self._blocks())]):
            rows += len(block)
            yield block
            if progress is not None and self._rows:
                progress(min(1.0, rows / self._rows))
        self._rows = rows
