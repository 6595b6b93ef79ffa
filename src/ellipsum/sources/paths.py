"""Paths, globs and folders: the files that they refer to, the reader of each file, and its columns."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import pyarrow as pa
from pyarrow import dataset

from ..errors import DataError, UsageError, named
from .arrow import is_numeric
from .batches import Chain, check_same
from .identities import plain_type
from .local import Table
from .protocol import attempt
from .selection import CsvFiles, Selection, as_names
from .sql import Query, query_schema

AnyPath = str | PathLike[str]
_TEXTS = {".csv", ".csv.gz", ".tsv", ".tsv.gz"}
_PARQUET = {".parquet", ".pq"}
_FEATHER = {".feather", ".arrow", ".ipc"}
_MARKERS = ("_SUCCESS", "_metadata", "_common_metadata")
_KINDS = "CSV (.csv, .csv.gz, .tsv), Parquet (.parquet) and Feather or Arrow (.feather, .arrow)"

_LITERAL = re.compile("'([^']+)'")  # DuckDB reads the files that a query names


def _suffix(path: Path) -> str:
    name = path.name.lower()
    return next((end for end in (*_TEXTS, *_PARQUET, *_FEATHER) if name.endswith(end)), "")


def _files_in(folder: Path) -> list[Path]:
    """Find the data files in a folder and below, except hidden ones and engines' markers (_SUCCESS)."""
    paths = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and _suffix(path)
        and not any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts)
    ]
    if not paths:
        raise DataError(f"{folder} has no data file. It must contain {_KINDS} files.")
    return paths


def _expand_home(item: AnyPath) -> Path:
    """Expand ~ and ~name as a shell does."""
    return attempt(f"{item} names a home folder that does not exist.", Path(item).expanduser)


def _expand(item: AnyPath) -> list[Path]:
    """Find the files that a path, a folder or a glob refers to."""
    path = _expand_home(item)
    if path.is_dir():
        return _files_in(path)
    if path.is_file():
        return [path]
    if glob.has_magic(str(path)):
        matches = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]
        if not matches:
            raise DataError(f"No file matches {item}.")
        return [file for match in matches for file in (_files_in(match) if match.is_dir() else [match])]
    raise DataError(f"{item} is not a file.")


def _has_a_log(folder: Path) -> bool:
    """Whether a folder is a Delta, Hudi or Iceberg table."""
    iceberg = (folder / "data").is_dir() and any((folder / "metadata").glob("*.metadata.json"))
    return iceberg or any((folder / name).is_dir() for name in ("_delta_log", ".hoodie"))


def _reject_table_formats(paths: Iterable[Path]) -> None:
    """Raise a usage error for files of a table with a log. Without the log, deleted rows would come back."""
    places = [place for path in paths for place in (path.absolute(), path.resolve())]
    for folder in {folder for place in places for folder in place.parents}:
        if _has_a_log(folder):
            raise UsageError(
                f"{folder} is a Delta, Hudi or Iceberg table: its files alone would bring deleted rows back. Use its "
                "own reader: deltalake.DeltaTable(folder).to_pyarrow_dataset(), pyiceberg, or Spark (--engine spark)."
            )


def _open_file(path: Path, selection: Selection) -> Table:
    suffix = _suffix(path)
    if not suffix:
        raise UsageError(f"{path} has an unknown suffix. ellipsum reads {_KINDS}.")
    if attempt(f"{path} could not be read.", path.stat).st_size == 0:
        raise DataError(f"{path} is empty.")
    if suffix in _PARQUET:
        from .arrow_files import ParquetTable

        return ParquetTable(path, selection)
    if suffix in _FEATHER:
        from .arrow_files import IpcTable

        return IpcTable(path, selection)
    from .csv import CsvTable

    separator = "\t" if suffix.startswith(".tsv") else ","
    return CsvTable(path, selection, separator=separator)


def _find_partitions(items: Sequence[AnyPath], selection: Selection) -> tuple[Path, list[Path]] | None:
    """Find a folder of `name=value` folders and its files. Return None if no such name is requested."""
    folder = _expand_home(items[0]) if len(items) == 1 else None
    if folder is None or not attempt(f"{folder} could not be read.", folder.is_dir):
        return None
    paths = attempt(f"{folder} could not be read.", _files_in, folder)
    attempt(f"{folder} could not be read.", _reject_table_formats, paths)
    inside = [part for path in paths for part in path.relative_to(folder).parts[:-1]]
    names = {part.partition("=")[0] for part in inside if "=" in part}
    requested = {str(name) for name in (*(as_names(selection.columns) or ()), *selection.beside)}
    kinds = {_suffix(path) for path in paths}
    if not names & requested or len(kinds) > 1:
        return None
    if kinds <= _TEXTS:
        raise UsageError(
            f"{folder} has text files, whose folders name no columns, but {named(min(names & requested))} is one of "
            f"these names. Write them as Parquet, or pass {folder}/**/*.csv if the files have that column themselves."
        )
    return folder, paths


def _is_placed_by_value(path: Path) -> bool:
    """Whether the values of a row may determine its file, as in partitions and folders of engines."""
    folder = path.absolute().parent
    return any("=" in part for part in folder.parts) or any((folder / name).exists() for name in _MARKERS)


def check_apart(output: Path | None, data: object) -> None:
    """Raise a usage error if the output is one of the files to be read, under any name."""
    if output is None or not os.path.isfile(output):
        return
    for path in _files_of(data):
        with suppress(OSError):
            if output.samefile(path):
                raise UsageError(f"{output} is an input: writing there would delete it. Name another output.")


def _files_of(data: object) -> Iterator[Path]:
    """Find the files of a path, a folder, a glob, a list of them, a data set or a query. Other data have none."""
    if isinstance(data, (list, tuple, set)):
        for item in data:
            yield from _files_of(item)
    elif isinstance(data, CsvFiles):
        yield from _files_of(data.paths)
    elif isinstance(data, (str, PathLike)):
        name = os.fspath(data)
        with suppress(Exception):  # opening it reports what is wrong
            yield from _expand(name.partition("://")[2].removeprefix("/") or name)
    elif isinstance(data, Query):
        yield from _files_of([data.database, *_LITERAL.findall(data.text)])
    else:
        yield from map(Path, getattr(data, "files", None) or ())


def first_file(item: AnyPath) -> Path:
    """Find the file that a path refers to, or the first file of a folder or a glob."""
    path = attempt(f"{item} could not be read.", _expand, item)[0]
    attempt(f"{path} could not be read.", _reject_table_formats, [path])
    return path


def open_files(items: Iterable[AnyPath], selection: Selection) -> Table:
    """Open one table of all files. Each file must have the chosen columns of the first."""
    items = list(items)
    selection = selection.named()
    if "" in items:
        raise _no_path()
    partitions = _find_partitions(items, selection)
    if partitions is not None:
        from .arrow_files import open_partitions

        return open_partitions(*partitions, selection)
    paths = [path for item in items for path in attempt(f"{item} could not be read.", _expand, item)]
    attempt(f"{paths[0]} could not be read.", _reject_table_formats, paths)
    first = _open_file(paths[0], selection)
    tables: list[Table] = [first]
    for path in paths[1:]:
        table = _open_file(path, selection.of(first.chosen))
        if selection.columns is None and set(table.available or ()) != set(first.available or ()):
            raise UsageError(f"{path} has other columns than {paths[0]}. Name those to use in columns.")
        check_same(first, table, str(path), str(paths[0]))
        tables.append(table)
    ordered = not any(attempt(f"{path} could not be read.", _is_placed_by_value, path) for path in paths)  # [T9]
    if len(tables) == 1 and ordered:
        return first
    sizes = [attempt(f"{path} could not be read.", path.stat).st_size for path in paths]
    return Chain(tables, sizes, ordered)


def _no_path() -> UsageError:
    """The error for an empty path, which would otherwise mean the working folder."""
    return UsageError("data is an empty text. Pass the path of a file or folder.")


@dataclass(frozen=True)
class Field:
    """A column: its name and the name of its type. The latter is "" if each cell has its own type."""

    name: str
    kind: str = ""
    numeric: bool = True
    """False if values of this type are no numbers."""


def schema_of(data: object, header: bool | None = None) -> tuple[Field, ...]:
    """Find the columns of a file, of the first file of a folder or glob, or of a query."""
    if isinstance(data, Query):
        return _fields(query_schema(data), typed=not str(data.database).startswith("sqlite"))
    if not isinstance(data, (str, PathLike)) or not str(data):
        raise _no_path()
    path = first_file(data)
    suffix = _suffix(path)
    if suffix not in _PARQUET | _FEATHER:
        opened = open_files([path], Selection(header=header))
        return tuple(Field(name) for name in opened.available or ())
    file_format = "parquet" if suffix in _PARQUET else "ipc"
    failed = f"{path} could not be read (damaged, cut short or of another format)."
    return attempt(failed, lambda: _fields(dataset.dataset(path, format=file_format).schema, typed=True))


def _fields(schema: pa.Schema, typed: bool) -> tuple[Field, ...]:
    return tuple(
        Field(field.name, str(field.type) if typed else "", is_numeric(plain_type(field.type))) for field in schema
    )
