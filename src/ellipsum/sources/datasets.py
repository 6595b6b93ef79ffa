"""pyarrow data sets and scanners: partitioned folders, columns and filters pushed down to the files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..errors import DataError, UsageError, named, shown
from .arrow import LayoutTable
from .arrow_files import check_layout
from .progress import Progress
from .protocol import Piece, block_rows
from .sealing import attempt, single_pass
from .selection import EVERYTHING, Selection

_UNREADABLE = "The data set could not be read (a file damaged, gone or of another format, or a filter that fails)."
_SCANNED = "The scanner could not be read. If it was read before, pass the table or data set itself."
_PAGE_BUFFER = 1 << 20
_AHEAD = 4


def open_dataset(data: Any, selection: Selection) -> DatasetTable | ScannerTable:
    """The table of a pyarrow data set or scanner."""
    from pyarrow import dataset

    if isinstance(data, dataset.Scanner):
        return ScannerTable(data, selection)
    if isinstance(data, dataset.Dataset):
        return DatasetTable(data, selection)
    raise UsageError(f"data must be a data set or a scanner, got pyarrow's {type(data).__name__}.")


def open_partitions(folder: Path, paths: list[Path], selection: Selection) -> DatasetTable:
    """A folder of `name=value` folders: the names are columns too."""
    from pyarrow import dataset

    kind = "parquet" if paths[0].suffix.lower() in (".parquet", ".pq") else "feather"

    if selection.columns is None:  # names of folders count only where they are asked for
        held = attempt(
            f"{folder} could not be read as a data set.", lambda: dataset.dataset(paths[0], format=kind).schema
        )
        selection = selection.of([name for name in held.names if name not in selection.beside])

    def opened() -> Any:
        partitioning = dataset.partitioning(flavor="hive")
        names = [str(path) for path in paths]
        return dataset.dataset(names, format=kind, partitioning=partitioning, partition_base_dir=str(folder))

    return DatasetTable(attempt(f"{folder} could not be read as a data set.", opened), selection)


class DatasetTable(LayoutTable):
    """Some columns of a pyarrow data set; a filter that it carries is applied as the files are read."""

    ordered = False  # [T9]

    def __init__(self, data: Any, selection: Selection = EVERYTHING) -> None:
        self._data = data
        self._files = attempt(_UNREADABLE, lambda: list(_file_parts(data)))
        schema = data.schema
        self._choose(schema, selection, "the data set", _UNREADABLE)
        self.gaps = (True,) * self.width
        for part in self._files:
            attempt(_UNREADABLE, _check_files, part, schema, self._names)
        self._seen = attempt(_UNREADABLE, self._stamps)
        for part in self._files:
            attempt(_UNREADABLE, _check_layouts, part)

    def _scanner(self, names: list[str]) -> Any:
        from pyarrow import dataset

        options: dict[str, Any] = {}
        if isinstance(getattr(self._data, "format", None), dataset.ParquetFileFormat):
            # Buffered pages: memory stays bounded even where one row group holds the whole file.
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
        """Size and time of every file, now."""
        infos = [info for part in self._files for info in part.filesystem.get_file_info(part.files)]
        return [(info.path, info.size, info.mtime_ns) for info in infos]

    def _watch(self) -> None:
        if attempt(_UNREADABLE, self._stamps) != self._seen:
            raise DataError("A file of the data set changed while it was being read. Nothing was published: try again.")

    def rows(self) -> int:
        if self._rows is None:
            self._rows = attempt(_UNREADABLE, lambda: int(self._data.count_rows()))
        return self._rows

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        self._watch()
        return self._read(progress)

    def _read(self, progress: Progress | None) -> Iterator[Piece]:
        batches = attempt(_UNREADABLE, lambda: self._scanner(self._names).to_batches())
        yield from self._counted(self._cut(batches, range(len(self._places)), _UNREADABLE), progress)
        self._watch()


def _file_parts(data: Any) -> Iterator[Any]:
    """The data sets of files within a data set."""
    from pyarrow import dataset

    if isinstance(data, dataset.UnionDataset):
        for child in data.children:
            yield from _file_parts(child)
    elif isinstance(data, dataset.FileSystemDataset):
        if isinstance(data.format, (dataset.CsvFileFormat, dataset.JsonFileFormat)):
            raise UsageError(
                "A data set of text files reads types off the cells. Pass the CSV files or their folder themselves."
            )
        yield data


def _check_files(part: Any, schema: Any, names: Iterable[str]) -> None:
    """Every file must hold every chosen column in the type of the data set: a cast could fail on one cell [T1].

    A column that no file holds comes from the folders' names, or is missing everywhere.
    """
    schemas = [(path, part.format.inspect(path, part.filesystem)) for path in part.files]
    for name in names:
        held = [(path, here) for path, here in schemas if name in here.names]
        if held and len(held) < len(schemas):
            path = next(path for path, here in schemas if name not in here.names)
            raise UsageError(f"{path} lacks the column {named(name)}. Name those that all files have in columns.")
        for path, here in held:
            if not _same_type(here.field(name).type, schema.field(name).type):
                raise UsageError(
                    f"Column {named(name)} is of type {shown(here.field(name).type)} in {path} and of type "
                    f"{shown(schema.field(name).type)} in the data set. Write it with one type."
                )


def _check_layouts(part: Any) -> None:
    """Reads Feather files once, batch by batch: pyarrow's scanner ends the process where one of them is damaged."""
    import pyarrow as pa
    from pyarrow import dataset

    for path in part.files if isinstance(part.format, dataset.IpcFileFormat) else ():
        with part.filesystem.open_input_file(path) as file:
            reader = pa.ipc.open_file(file)
            for index in range(reader.num_record_batches):
                check_layout(reader.get_batch(index))


def _same_type(left: Any, right: Any) -> bool:
    """Equal but for nullability inside lists."""
    import pyarrow as pa

    if pa.types.is_fixed_size_list(left) and pa.types.is_fixed_size_list(right):
        return bool(left.list_size == right.list_size and left.value_type == right.value_type)
    if (pa.types.is_list(left) and pa.types.is_list(right)) or (
        pa.types.is_large_list(left) and pa.types.is_large_list(right)
    ):
        return bool(left.value_type == right.value_type)
    return bool(left == right)


class ScannerTable(LayoutTable):
    """Some columns of a pyarrow scanner, which may filter and compute.

    pyarrow does not say whether a scanner can be read again (one over batches cannot), so all serve a single pass.
    """

    reopenable = False
    ordered = False  # [T9]

    def __init__(self, data: Any, selection: Selection = EVERYTHING) -> None:
        self._data = data
        self._choose(data.projected_schema, selection, "the scanner", _SCANNED)
        self.gaps = (True,) * self.width
        self._taken = False

    def rows(self) -> int:
        if self._rows is None:
            raise UsageError(
                "A scanner serves a single pass, and knows its rows only after it. Pass the data set itself, with "
                "filter() and columns=, or scanner.to_table()."
            )
        return self._rows

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        if self._taken:
            raise single_pass("This scanner")
        self._taken = True
        return self._counted(self._cut(map(_checked, attempt(_SCANNED, self._data.to_batches)), self._places, _SCANNED))


def _checked(batch: Any) -> Any:
    check_layout(batch)
    return batch
