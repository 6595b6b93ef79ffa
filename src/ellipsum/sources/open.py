"""Open any supported data with the right reader.

Errors and their messages depend on names, types, shapes and the readability of files alone. They never depend on the
numbers or texts in the cells ([T1] to [T5] in docs/proofs/tables.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from io import IOBase
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from ..errors import UsageError
from ..request.groups import Listed
from ..request.people import People
from .arrays import ArrayTable
from .local import Table
from .protocol import Source
from .selection import EVERYTHING, CsvFiles, Selection, as_names

if TYPE_CHECKING:  # imported where data needs it
    from .engine import EngineSource

_KINDS = (
    "a two-dimensional array, a table that supports Arrow (pandas, polars, pyarrow, DuckDB), a dict of columns, a "
    "path, or a list of those or of rows"
)


def open_source(data: object, selection: Selection) -> Source:
    """Open the selected columns of `data`, in the order of the selection.

    Frames of engines are recognized first. They support Arrow too, which would collect all rows in this process.
    """
    if isinstance(data, CsvFiles):
        return open_source(data.paths, replace(selection, header=data.header))
    remote = None if type(data) is np.ndarray else _open_frame(data, selection)
    return _open_labeled(data, selection) if remote is None else remote


def group_by_person(source: Source, people: People, most: int | None = None, listed: Listed | None = None) -> Source:
    """Group rows by person where the rows are [T6]. The source must have been opened with the column of identities.

    With `most`: one row for each person and group, in at most `most` groups of a person [G4]. listed: the public
    groups. Close the result after use.
    """
    if isinstance(source, Table):
        from .people import gather

        return gather(source, people, most, listed)
    from .engine import EngineSource

    assert isinstance(source, EngineSource)
    return source.grouped(people, most, listed)


def _open_labeled(data: object, selection: Selection) -> Table:
    """Open local data, with the arrays that identify groups beside its rows."""
    if not selection.labels:
        return _open_coded(data, selection)
    from .batches import LabeledTable

    table = _open_coded(data, replace(selection, by=(), labels=()))
    return LabeledTable(table, selection.labels, list(map(str, selection.by)))


def _open_coded(data: object, selection: Selection) -> Table:
    """Open local data, with columns of listed categories among its values."""
    if selection.coded is None:
        return open_table(data, selection)
    from .coded import CodedTable

    names, categories = [name for name, _ in selection.coded], [cells for _, cells in selection.coded]
    table = open_table(data, replace(selection, by=(*names, *selection.by)))
    return CodedTable(table, names, categories, len(selection.by))


def _is_spark(data: object) -> bool:
    return type(data).__module__.split(".")[0] == "pyspark"


def is_frame(data: object) -> bool:
    """Whether data is an engine's frame, or the source of one. Imports no engine."""
    from .engine import EngineSource

    return _is_spark(data) or isinstance(data, EngineSource)


def _open_frame(data: object, selection: Selection) -> EngineSource | None:
    """Open a frame of an engine. Return None for other data."""
    if not is_frame(data):
        return None
    if selection.labels:
        raise UsageError(
            "by is an array, but the rows of a frame have no public order. Name a column of the frame in by."
        )
    from .engine import EngineSource

    if isinstance(data, EngineSource):
        _check_columns(data, selection)
        return data
    from .spark.source import open_spark

    return open_spark(data, selection)


def _check_columns(source: EngineSource, selection: Selection) -> None:
    """Raise a usage error if an open source has other columns than the selection."""
    from .engine import NOT_GROUPED, EngineSource

    key = selection.key
    if key is not None and type(source).grouped is EngineSource.grouped:
        raise UsageError(NOT_GROUPED)
    names = as_names(selection.named().columns)
    other = selection.coded != source.coded
    other |= names is not None and tuple(map(str, names)) not in (source.chosen, source.columns)
    source_key = None if source.key_place is None else source.available[source.key_place]
    groups = tuple(source.available[place] for place in source.by_places[len(source.by_places) - len(source.by) :])
    if other or (key is not None and str(key) != source_key) or tuple(map(str, selection.by)) != groups:
        raise UsageError("This table was opened with other columns. Open the data again with columns=.")


def open_table(data: object, selection: Selection = EVERYTHING) -> Table:
    """Open the selected columns of local data, in the order of the selection.

    data: an array, a table or frame that supports Arrow, a pyarrow data set or scanner, a query (`ellipsum.sql`), a
        path, glob or folder of CSV, Parquet or Feather files, a list of any one of these, an iterable of batches (an
        iterator is read once), a lazy frame or single column of polars or pandas, a dict of columns, a list of records
        (dicts) or a list of rows (lists or tuples); `python_objects` documents what is read of the last three.
    Raises UsageError for wrong columns, types and shapes; DataError for files that cannot be read.
    """
    if type(data) is np.ndarray:
        return ArrayTable(data, selection)
    if isinstance(data, (str, PathLike)):
        from .paths import open_files

        return open_files([data], selection)
    if isinstance(data, (list, tuple)):
        return _open_list(data, selection)
    from .python_objects import is_series, open_columns, open_series

    if isinstance(data, Mapping):
        return open_columns(data, selection)
    if is_series(data):
        return open_series(data, selection)
    if type(data).__name__ == "LazyFrame" and hasattr(data, "collect_schema"):
        from .arrow import LazyTable

        return LazyTable(data, selection)
    return _open_one(data, selection)


def _open_one(data: object, selection: Selection) -> Table:
    home = type(data).__module__
    if isinstance(data, np.ndarray):
        return ArrayTable(data, selection)
    from .sql import Query, SqlTable

    if isinstance(data, Query):
        return SqlTable(data, selection)
    if home == "pyarrow._dataset":
        from .arrow_files import open_dataset

        return open_dataset(data, selection)
    if home.startswith("scipy.sparse"):
        raise UsageError("data is a sparse matrix. Pass data.toarray(), or a list of its parts converted that way.")
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        from .arrow import ArrowTable

        return ArrowTable(data, selection)
    if hasattr(data, "__array__"):
        from .protocol import attempt

        return ArrayTable(attempt("data could not be turned into an array.", lambda: np.asarray(data)), selection)
    if isinstance(data, IOBase):
        raise UsageError("data is an open file. Pass its path.")
    if isinstance(data, Iterable) and not isinstance(data, (Mapping, bytes, bytearray, set, frozenset)):
        from .batches import BatchesTable

        return BatchesTable(data, selection, _open_batch)
    raise UsageError(f"data must be {_KINDS}, got {type(data).__name__}.")


def _open_batch(batch: object, selection: Selection) -> Table:
    """Open one batch of a list or iterable: any table in memory."""
    if _is_spark(batch):
        raise UsageError("A batch must be a table in memory, got a Spark frame. Pass one frame: combine them first.")
    protocols = "__array__", "__arrow_c_array__", "__arrow_c_stream__"
    if any(hasattr(batch, name) for name in protocols):
        return _open_one(batch, selection)
    kind = type(batch).__name__
    raise UsageError(f"A batch must be a two-dimensional array or an Arrow table, got {kind}. Try numpy.asarray(data).")


def _open_list(data: Sequence[object], selection: Selection) -> Table:
    if not data and selection.named().columns is None:
        raise UsageError(f"data is an empty list. Pass {_KINDS}, or name its columns.")
    if not data or isinstance(data[0], (Mapping, list, tuple)):  # a batch or a row: the type of the first decides
        from .python_objects import open_rows

        return open_rows(data, selection)
    paths = [item for item in data if isinstance(item, (str, PathLike))]
    if len(paths) == len(data):
        from .paths import open_files

        return open_files(paths, selection)
    from .batches import Chain, check_same

    tables = [_open_batch(batch, selection) for batch in data]
    for index, table in enumerate(tables[1:], 1):
        check_same(tables[0], table, f"Batch {index}", "batch 0")
    if len(tables) == 1:
        return tables[0]
    return Chain(tables, [1.0] * len(tables))
