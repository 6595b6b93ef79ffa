"""Paths, globs and folders: which files they mean, and what reads each."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, cast

from ..errors import DataError, UsageError, named
from .batches import Chain, check_same
from .progress import Progress
from .protocol import Part, Piece, Table
from .sealing import attempt
from .selection import Selection, as_names
from .sql import Query

_SUFFIXES = (
    ".csv",
    ".csv.gz",
    ".tsv",
    ".tsv.gz",
    ".parquet",
    ".pq",
    ".feather",
    ".arrow",
    ".ipc",
)
_TEXTS = {".csv", ".csv.gz", ".tsv", ".tsv.gz"}
_MARKERS = ("_SUCCESS", "_metadata", "_common_metadata")
_KINDS = "CSV (.csv, .csv.gz, .tsv), Parquet (.parquet) and Feather or Arrow (.feather, .arrow)"

_LITERAL = re.compile("'([^']+)'")  # DuckDB reads files that a query names


def _suffix(path: Path) -> str:
    name = path.name.lower()
    return max((end for end in _SUFFIXES if name.endswith(end)), key=len, default="")


def _listed(folder: Path) -> list[Path]:
    """The data files in a folder and below, without hidden ones and engines' markers (_SUCCESS)."""
    paths = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and _suffix(path)
        and not any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts)
    ]
    if not paths:
        raise DataError(f"{folder} holds no data file. It must contain {_KINDS} files.")
    return paths


def _at_home(item: str | PathLike[str]) -> Path:
    """The path, with ~ and ~name as the shell reads them."""
    return attempt(f"{item} names a home folder that is not there.", Path(item).expanduser)


def _expand(item: str | PathLike[str]) -> list[Path]:
    path = _at_home(item)
    if path.is_dir():
        return _listed(path)
    if path.is_file():
        return [path]
    if glob.has_magic(str(path)):
        matches = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]
        if not matches:
            raise DataError(f"No file matches {item}.")
        return [file for match in matches for file in (_listed(match) if match.is_dir() else [match])]
    raise DataError(f"{item} is not a file.")


def _has_a_log(folder: Path) -> bool:
    """Whether a folder is that of a Delta, Hudi or Iceberg table."""
    iceberg = (folder / "data").is_dir() and any((folder / "metadata").glob("*.metadata.json"))
    return iceberg or any((folder / name).is_dir() for name in ("_delta_log", ".hoodie"))


def _reject_table_formats(paths: Iterable[Path]) -> None:
    """A log says which files of such a table count: by themselves they would bring deleted rows back."""
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
    if suffix in (".parquet", ".pq"):
        from .arrow_files import ParquetTable

        return ParquetTable(path, selection)
    if suffix in (".feather", ".arrow", ".ipc"):
        from .arrow_files import IpcTable

        return IpcTable(path, selection)
    from .csv import CsvTable

    separator = "\t" if suffix.startswith(".tsv") else ","
    return CsvTable(path, selection, separator=separator)


class _ParquetChain(Chain):
    """Parquet files of the same columns: row groups are decoded side by side across files."""

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        from .arrow_files import ParquetTable, side_by_side

        return side_by_side(cast(Sequence[ParquetTable], self.tables), progress)

    def parts(self) -> list[Part]:
        from .arrow_files import ParquetTable, parts_of

        return parts_of(cast(Sequence[ParquetTable], self.tables))


def _lake(items: Sequence[str | PathLike[str]], selection: Selection) -> tuple[Path, list[Path]] | None:
    """A folder of `name=value` folders, where one of those names is asked for, and its files."""
    folder = _at_home(items[0]) if len(items) == 1 else None
    if folder is None or not attempt(f"{folder} could not be read.", folder.is_dir):
        return None
    paths = attempt(f"{folder} could not be read.", _listed, folder)
    attempt(f"{folder} could not be read.", _reject_table_formats, paths)
    inside = [part for path in paths for part in path.relative_to(folder).parts[:-1]]
    names = {part.partition("=")[0] for part in inside if "=" in part}
    asked = {str(name) for name in (*(as_names(selection.columns) or ()), *selection.beside)}
    kinds = {_suffix(path) for path in paths}
    if not names & asked or len(kinds) > 1:
        return None
    if kinds <= _TEXTS:
        raise UsageError(
            f"{folder} holds text files, whose folders name no columns: {named(min(names & asked))} is asked for. "
            f"Write them as Parquet, or pass {folder}/**/*.csv if the files hold it themselves."
        )
    return folder, paths


def _placed_by_value(path: Path) -> bool:
    """Whether a row's values may have decided in which file it lies: in lakes, and in folders that an engine wrote."""
    folder = path.absolute().parent
    return any("=" in part for part in folder.parts) or any((folder / name).exists() for name in _MARKERS)


def check_apart(output: Path | None, data: Any) -> None:
    """Refuse an output that is one of the files to be read, under whatever name it goes."""
    if output is None or not os.path.isfile(output):
        return
    for path in _files_of(data):
        with suppress(OSError):
            if output.samefile(path):
                raise UsageError(f"{output} is a file that is read: writing there would lose it. Name another output.")


def _files_of(data: Any) -> Iterator[Path]:
    """The files behind a path, a folder, a glob, a list of them, a data set or a query; none behind other data."""
    if isinstance(data, (list, tuple, set)):
        for item in data:
            yield from _files_of(item)
    elif isinstance(data, (str, PathLike)):
        name = os.fspath(data)
        with suppress(Exception):  # what is wrong with it is told when it is opened
            yield from _expand(name.partition("://")[2].removeprefix("/") or name)
    elif isinstance(data, Query):
        yield from _files_of([data.database, *_LITERAL.findall(data.text)])
    else:
        yield from map(Path, getattr(data, "files", None) or ())


def first_file(item: str | PathLike[str]) -> Path:
    """The file that a path means, or the first of those that a folder or a glob means."""
    path = attempt(f"{item} could not be read.", _expand, item)[0]
    attempt(f"{path} could not be read.", _reject_table_formats, [path])
    return path


def open_files(items: Iterable[str | PathLike[str]], selection: Selection) -> Table:
    """One table over all the files; each must offer the columns of the first."""
    items = list(items)
    selection = selection.named()
    if "" in items:  # it would mean the working folder
        raise UsageError("data is an empty text. Pass the path of a file or folder.")
    lake = _lake(items, selection)
    if lake is not None:
        from .datasets import open_partitions

        return open_partitions(*lake, selection)
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
    ordered = not any(attempt(f"{path} could not be read.", _placed_by_value, path) for path in paths)  # [T9]
    if len(tables) == 1 and ordered:
        return first
    kinds = {_suffix(path) for path in paths}
    chain = _ParquetChain if kinds <= {".parquet", ".pq"} else Chain
    sizes = [attempt(f"{path} could not be read.", path.stat).st_size for path in paths]
    return chain(tables, sizes, ordered)
