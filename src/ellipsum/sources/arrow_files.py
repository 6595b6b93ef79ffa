"""Parquet and Feather (Arrow IPC) files: the chosen columns alone, decoded ahead of the consumer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .arrow import LayoutTable, pieces, to_piece
from .progress import Progress
from .protocol import Part, Piece, block_rows
from .read_ahead import chain_ahead, workers
from .sealing import Watch, attempt, sealed
from .selection import EVERYTHING, Selection

_PAGE_BUFFER = 1 << 20
_BATCH_CELLS = 2_621_440  # 20 MB of float64: starting a batch costs pyarrow as much as decoding some thousand rows


class ParquetTable(LayoutTable):
    """The numbers of some columns of a Parquet file; the row count comes from its footer."""

    ordered = True

    def __init__(self, path: Path, selection: Selection = EVERYTHING) -> None:
        self._path = path
        self._watch = Watch(path)
        self._unreadable = f"{path} could not be read as a Parquet file (damaged, cut short or of another format)."
        schema, self._count, self._groups = attempt(self._unreadable, self._footer)
        self._choose(schema, selection, str(path), self._unreadable)

    def _footer(self) -> tuple[Any, int, int]:
        from pyarrow import parquet

        with parquet.ParquetFile(self._path) as file:
            return file.schema_arrow, file.metadata.num_rows, file.num_row_groups

    def rows(self) -> int:
        return self._count

    def _group(self, index: int, threaded: bool) -> Iterator[Piece]:
        from pyarrow import parquet

        self._watch.check()
        # Buffered pages: memory stays bounded even where one row group holds the whole file.
        with parquet.ParquetFile(self._path, buffer_size=_PAGE_BUFFER, pre_buffer=False) as file:
            batches = file.iter_batches(
                batch_size=block_rows(self.width, _BATCH_CELLS),
                row_groups=[index],
                columns=self._names,
                use_threads=threaded,
            )
            for batch in batches:
                yield to_piece([batch.column(name) for name in self._names], self._plan)
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


_TEXTS = {"string": "binary", "large_string": "large_binary", "string_view": "binary_view"}


def check_layout(batch: Any) -> None:
    """An error unless every place that the batch's buffers point to lies within them; what cells say is not judged.

    Arrow IPC is memory as it lies: an offset that a damaged file got wrong would be followed anywhere.
    """
    batch.validate()
    for array in batch.columns:
        _check_places(array)


def _check_places(array: Any) -> None:
    import pyarrow as pa

    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        _check_places(array.storage)
    elif pa.types.is_dictionary(kind):  # its indices are checked where they are followed
        _check_places(array.dictionary)
    elif str(kind) in _TEXTS:  # as bytes: text that is no UTF-8 is an ordinary cell [T1]
        array.view(_TEXTS[str(kind)]).validate(full=True)
    elif pa.types.is_nested(kind) or str(kind) in _TEXTS.values():
        array.validate(full=True)


class IpcTable(LayoutTable):
    """The numbers of some columns of an Arrow IPC file, read a record batch at a time.

    The file is not mapped into memory: one that somebody cuts short meanwhile would end the process.
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

    def _schema(self) -> Any:
        import pyarrow as pa

        with pa.OSFile(str(self._path)) as file:
            reader = pa.ipc.open_stream(file) if self._is_stream else pa.ipc.open_file(file)
            return reader.schema

    def _batches(self, places: Iterable[int]) -> Iterator[Any]:
        """Record batches that hold the columns at these places, in file order."""
        import pyarrow as pa

        options = pa.ipc.IpcReadOptions(included_fields=sorted(places), use_threads=False)
        with pa.OSFile(str(self._path)) as file:
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

    def _pieces(self) -> Iterator[Piece]:
        kept = sorted(self._places)
        for batch in self._batches(self._places):
            self._watch.check()
            check_layout(batch)
            yield from pieces(batch, [kept.index(place) for place in self._places], self._plan)
        self._watch.check()

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        return self._counted(chain_ahead([lambda: sealed(self._unreadable, self._pieces())]), progress)
