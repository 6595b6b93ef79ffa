"""Parquet and Feather (Arrow IPC) files: only the chosen columns are read, decoded ahead of the consumer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet, types

from ..util.threads import chain_ahead, workers
from .arrow import LayoutTable, pieces, to_piece
from .local import Piece, PieceReader, block_rows
from .protocol import Progress, Watch, attempt, sealed
from .selection import EVERYTHING, Selection

_PAGE_BUFFER = 1 << 20
_BATCH_CELLS = 1_310_720  # 10 MB of float64: to start a batch costs pyarrow as much as to decode some thousand rows


class ParquetTable(LayoutTable):
    """Some columns of a Parquet file. The number of rows comes from its footer."""

    ordered = True

    def __init__(self, path: Path, selection: Selection = EVERYTHING) -> None:
        self._path = path
        self._watch = Watch(path)
        self._unreadable = f"{path} could not be read as a Parquet file (damaged, cut short or of another format)."
        schema, self._rows, self._groups = attempt(self._unreadable, self._footer)
        self._choose(schema, selection, str(path), self._unreadable)

    def _footer(self) -> tuple[pa.Schema, int, int]:
        with parquet.ParquetFile(self._path) as file:
            return file.schema_arrow, file.metadata.num_rows, file.num_row_groups

    def _row_group(self, index: int) -> Iterator[Piece]:
        self._watch.check()
        # Buffered pages: memory stays bounded even if one row group is the whole file.
        with parquet.ParquetFile(self._path, buffer_size=_PAGE_BUFFER, pre_buffer=False) as file:
            batches = file.iter_batches(
                batch_size=block_rows(self.width, _BATCH_CELLS),
                row_groups=[index],
                columns=self._names,
                use_threads=self._groups < workers(),  # its columns are decoded side by side
            )
            for batch in batches:
                yield to_piece([batch.column(name) for name in self._names], self._plan)
        self._watch.check()

    def _sealed_group(self, index: int) -> Iterator[Piece]:
        return sealed(self._unreadable, self._row_group(index))

    def row_groups(self) -> list[PieceReader]:
        return [partial(self._sealed_group, index) for index in range(self._groups)]

    def _read(self, progress: Progress | None) -> Iterator[Piece]:
        return chain_ahead(self.row_groups())


_TEXTS = {"string": "binary", "large_string": "large_binary", "string_view": "binary_view"}


def check_layout(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Raise an error unless every offset in the batch's buffers lies within them. Cells are not checked.

    Arrow IPC is raw memory: an offset that is wrong in a damaged file would be followed anywhere.
    """
    batch.validate()
    for array in batch.columns:
        _check_offsets(array)
    return batch


def _check_offsets(array: pa.Array) -> None:
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        _check_offsets(array.storage)
    elif types.is_dictionary(kind):  # its indices are checked where they are followed
        _check_offsets(array.dictionary)
    elif str(kind) in _TEXTS:  # as bytes: text that is not UTF-8 is an ordinary cell [T1]
        array.view(_TEXTS[str(kind)]).validate(full=True)
    elif types.is_nested(kind) or str(kind) in _TEXTS.values():
        array.validate(full=True)


class IpcTable(LayoutTable):
    """Some columns of an Arrow IPC file, read one record batch at a time.

    The file is not mapped into memory, because a file that is cut short meanwhile would end the process.
    """

    ordered = True

    def __init__(self, path: Path, selection: Selection = EVERYTHING) -> None:
        self._path = path
        self._watch = Watch(path)
        self._unreadable = f"{path} could not be read as an Arrow file (damaged, cut short or of another format)."
        self._is_stream = attempt(self._unreadable, self._starts_as_stream)
        schema = attempt(self._unreadable, self._schema)
        self._choose(schema, selection, str(path), self._unreadable)

    def _starts_as_stream(self) -> bool:
        with open(self._path, "rb") as file:
            return file.read(6) != b"ARROW1"

    def _schema(self) -> pa.Schema:
        with pa.OSFile(str(self._path)) as file:
            reader = pa.ipc.open_stream(file) if self._is_stream else pa.ipc.open_file(file)
            return reader.schema

    def _batches(self, places: Iterable[int]) -> Iterator[pa.RecordBatch]:
        """Record batches with the columns at these positions, in file order."""
        options = pa.ipc.IpcReadOptions(included_fields=sorted(places), use_threads=False)
        with pa.OSFile(str(self._path)) as file:
            if self._is_stream:
                yield from pa.ipc.open_stream(file, options=options)
                return
            reader = pa.ipc.open_file(file, options=options)
            for index in range(reader.num_record_batches):
                yield reader.get_batch(index)

    def _count(self) -> int:
        return sum(batch.num_rows for batch in sealed(self._unreadable, self._batches(self._places[:1])))

    def _checked_pieces(self) -> Iterator[Piece]:
        in_file = sorted(self._places)
        for batch in self._batches(self._places):
            self._watch.check()
            yield from pieces(check_layout(batch), [in_file.index(place) for place in self._places], self._plan)
        self._watch.check()

    def _read(self, progress: Progress | None) -> Iterator[Piece]:
        return chain_ahead([lambda: sealed(self._unreadable, self._checked_pieces())])
