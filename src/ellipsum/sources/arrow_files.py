"""Parquet and Feather (Arrow IPC) files, and pyarrow's data sets and scanners. Only the chosen columns are read.

Files are decoded ahead of the consumer. A data set applies its columns and filters as its files are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import dataset, parquet, types

from ..errors import DataError, UsageError, named, shown
from ..util.threads import chain_ahead, workers
from .arrow import LayoutTable, cut_pieces, to_piece
from .local import Piece, PieceReader, block_rows
from .protocol import Progress, Watch, attempt, seal
from .selection import EVERYTHING, Selection

_PAGE_BUFFER = 1 << 20
_BATCH_CELLS = 1_310_720  # 10 MB of float64: pyarrow takes as long to start a batch as to decode thousands of rows


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
        return seal(self._unreadable, self._row_group(index))

    def row_groups(self) -> list[PieceReader]:
        return [partial(self._sealed_group, index) for index in range(self._groups)]

    def _read(self, progress: Progress | None) -> Iterator[Piece]:
        return chain_ahead(self.row_groups())


_TEXTS = {"string": "binary", "large_string": "large_binary", "string_view": "binary_view"}


def check_layout(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Raise an error unless every offset in the batch's buffers lies within them. Cells are not checked.

    Arrow IPC is raw memory. In a damaged file a wrong offset could refer to any address.
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
        return sum(batch.num_rows for batch in seal(self._unreadable, self._batches(self._places[:1])))

    def _checked_pieces(self) -> Iterator[Piece]:
        in_file = sorted(self._places)
        for batch in self._batches(self._places):
            self._watch.check()
            yield from cut_pieces(check_layout(batch), [in_file.index(place) for place in self._places], self._plan)
        self._watch.check()

    def _read(self, progress: Progress | None) -> Iterator[Piece]:
        return chain_ahead([lambda: seal(self._unreadable, self._checked_pieces())])


_UNREADABLE = "The data set could not be read (a file damaged, gone or of another format, or a filter that fails)."
_SCANNED = "The scanner could not be read. If it was read before, pass the table or data set itself."
_AHEAD = 4


def open_dataset(data: object, selection: Selection) -> DatasetTable | ScannerTable:
    """Open a pyarrow data set or scanner."""
    if isinstance(data, dataset.Scanner):
        return ScannerTable(data, selection)
    if isinstance(data, dataset.Dataset):
        return DatasetTable(data, selection)
    raise UsageError(f"data must be a data set or a scanner, got pyarrow's {type(data).__name__}.")


def open_partitions(folder: Path, paths: list[Path], selection: Selection) -> DatasetTable:
    """Open a folder of `name=value` folders, whose names are columns too."""
    kind = "parquet" if paths[0].suffix.lower() in (".parquet", ".pq") else "feather"
    unreadable = f"{folder} could not be read as a data set."
    if selection.columns is None:  # names of folders are columns only if they are requested
        in_files = attempt(unreadable, lambda: dataset.dataset(paths[0], format=kind).schema)
        selection = selection.of([name for name in in_files.names if name not in selection.beside])

    def open_all() -> dataset.Dataset:
        partitioning = dataset.partitioning(flavor="hive")
        names = [str(path) for path in paths]
        return dataset.dataset(names, format=kind, partitioning=partitioning, partition_base_dir=str(folder))

    return DatasetTable(attempt(unreadable, open_all), selection)


class DatasetTable(LayoutTable):
    """Some columns of a pyarrow data set, without a row order [T9]. A filter that it has is applied on reading."""

    def __init__(self, data: dataset.Dataset, selection: Selection = EVERYTHING) -> None:
        self._data = data
        self._files = attempt(_UNREADABLE, lambda: list(_file_parts(data)))
        self._choose(data.schema, selection, "the data set", _UNREADABLE)
        self.nullable = (True,) * self.width
        for part in self._files:
            attempt(_UNREADABLE, _check_files, part, data.schema, self._names)
        self._first_stamps = attempt(_UNREADABLE, self._stamps)
        for part in self._files:
            attempt(_UNREADABLE, _check_layouts, part)

    def _scanner(self, names: list[str]) -> dataset.Scanner:
        options: dict[str, Any] = {}
        if isinstance(getattr(self._data, "format", None), dataset.ParquetFileFormat):
            # Buffered pages: memory stays bounded even if one row group is the whole file.
            options["fragment_scan_options"] = dataset.ParquetFragmentScanOptions(
                use_buffered_stream=True, buffer_size=_PAGE_BUFFER, pre_buffer=False
            )
        return self._data.scanner(
            columns=names,
            batch_size=block_rows(self.width),
            batch_readahead=_AHEAD,
            fragment_readahead=_AHEAD,
            **options,
        )

    def _stamps(self) -> list[tuple[str, int, int]]:
        """Get the present size and time of every file."""
        infos = [info for part in self._files for info in part.filesystem.get_file_info(part.files)]
        return [(info.path, info.size, info.mtime_ns) for info in infos]

    def _watch(self) -> None:
        if attempt(_UNREADABLE, self._stamps) != self._first_stamps:
            raise DataError("A file of the data set changed while it was being read. Nothing was published: try again.")

    def _count(self) -> int:
        return attempt(_UNREADABLE, lambda: int(self._data.count_rows()))

    def _read(self, progress: Progress | None) -> Iterator[Piece]:
        self._watch()
        batches = attempt(_UNREADABLE, lambda: self._scanner(self._names).to_batches())
        yield from self._cut(batches, range(len(self._places)), _UNREADABLE)
        self._watch()


def _file_parts(data: dataset.Dataset) -> Iterator[dataset.FileSystemDataset]:
    """Find the data sets of files within a data set."""
    if isinstance(data, dataset.UnionDataset):
        for child in data.children:
            yield from _file_parts(child)
    elif isinstance(data, dataset.FileSystemDataset):
        if isinstance(data.format, (dataset.CsvFileFormat, dataset.JsonFileFormat)):
            raise UsageError(
                "A data set of text files infers types from the cells. Pass the CSV files or their folder themselves."
            )
        yield data


def _check_files(part: dataset.FileSystemDataset, schema: pa.Schema, names: Iterable[str]) -> None:
    """Raise a usage error unless every file has each chosen column in the type of the data set.

    Otherwise a cast could fail because of one cell [T1]. If no file has a column, it comes from the names of folders,
    or it is missing everywhere.
    """
    schemas = [(path, part.format.inspect(path, part.filesystem)) for path in part.files]
    for name in names:
        in_files = [(path, in_file) for path, in_file in schemas if name in in_file.names]
        if in_files and len(in_files) < len(schemas):
            path = next(path for path, in_file in schemas if name not in in_file.names)
            raise UsageError(f"{path} has no column {named(name)}. Use columns= for those that all files have.")
        for path, in_file in in_files:
            if not _same_type(in_file.field(name).type, schema.field(name).type):
                raise UsageError(
                    f"Column {named(name)} is of type {shown(in_file.field(name).type)} in {path} and of type "
                    f"{shown(schema.field(name).type)} in the data set. Write it with one type."
                )


def _check_layouts(part: dataset.FileSystemDataset) -> None:
    """Read Feather files once, because pyarrow's scanner ends the process if one of them is damaged."""
    for path in part.files if isinstance(part.format, dataset.IpcFileFormat) else ():
        with part.filesystem.open_input_file(path) as file:
            reader = pa.ipc.open_file(file)
            for index in range(reader.num_record_batches):
                check_layout(reader.get_batch(index))


def _same_type(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether two types are equal, except for nullability inside lists."""
    if types.is_fixed_size_list(left) and types.is_fixed_size_list(right):
        return bool(left.list_size == right.list_size and left.value_type == right.value_type)
    for is_list in (types.is_list, types.is_large_list):
        if is_list(left) and is_list(right):
            return bool(left.value_type == right.value_type)
    return bool(left == right)


class ScannerTable(LayoutTable):
    """Some columns of a pyarrow scanner, which may filter and compute; without a row order [T9].

    pyarrow does not say whether a scanner can be read again (one over batches cannot), so all are read once.
    """

    reopenable = False

    def __init__(self, data: dataset.Scanner, selection: Selection = EVERYTHING) -> None:
        self._data = data
        self._choose(data.projected_schema, selection, "the scanner", _SCANNED)
        self.nullable = (True,) * self.width

    def _read(self, progress: Progress | None) -> Iterator[Piece]:
        return self._cut(map(check_layout, attempt(_SCANNED, self._data.to_batches)), self._places, _SCANNED)
