"""pyarrow data sets and scanners: partitioned folders, with columns and filters applied as the files are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import dataset, types

from ..errors import DataError, UsageError, named, shown
from .arrow import LayoutTable
from .arrow_files import check_layout
from .local import Piece, block_rows
from .protocol import Progress, attempt
from .selection import EVERYTHING, Selection

_UNREADABLE = "The data set could not be read (a file damaged, gone or of another format, or a filter that fails)."
_SCANNED = "The scanner could not be read. If it was read before, pass the table or data set itself."
_PAGE_BUFFER = 1 << 20
_AHEAD = 4


def open_dataset(data: object, selection: Selection) -> DatasetTable | ScannerTable:
    """The table of a pyarrow data set or scanner."""
    if isinstance(data, dataset.Scanner):
        return ScannerTable(data, selection)
    if isinstance(data, dataset.Dataset):
        return DatasetTable(data, selection)
    raise UsageError(f"data must be a data set or a scanner, got pyarrow's {type(data).__name__}.")


def open_partitions(folder: Path, paths: list[Path], selection: Selection) -> DatasetTable:
    """A folder of `name=value` folders: the names are columns too."""
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
        """The present size and time of every file."""
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
    """The data sets of files within a data set."""
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
    """Every file must have every chosen column in the type of the data set: a cast could fail on one cell [T1].

    A column that no file has comes from the names of folders, or is missing everywhere.
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
    """Read Feather files once: pyarrow's scanner ends the process if one of them is damaged."""
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
