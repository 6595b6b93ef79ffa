"""Which reader serves which data.

Whether opening or reading fails, and with which words, depends on names, types, shapes and the readability of files
alone, never on the numbers or texts in the cells ([T1] to [T5] in docs/proofs/tables.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from io import IOBase
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UsageError
from .arrays import ArrayTable
from .batches import Chain
from .local import LocalSource
from .protocol import Source, Table
from .selection import EVERYTHING, CsvFiles, Selection, as_names

if TYPE_CHECKING:  # imported for frames alone: it compiles
    from .engine import EngineSource


def open_source(data: Any, selection: Selection) -> Source:
    """The source of the rows in `data`: the columns that the selection takes, in its order.

    Engines' frames are recognized first: they speak Arrow too, and would be collected here.
    """
    if isinstance(data, CsvFiles):
        return open_source(data.paths, replace(selection, header=data.header))
    remote = None if type(data) is np.ndarray else engine_source(data, selection)
    return LocalSource(_opened(data, selection)) if remote is None else remote


def _opened(data: Any, selection: Selection) -> Table:
    """The table of local data; with arrays beside it that name groups, they are put to its rows."""
    if not selection.labels:
        return open_table(data, selection)
    from .batches import LabeledTable

    table = open_table(data, replace(selection, by=(), labels=()))
    return LabeledTable(table, list(selection.labels), [str(name) for name in selection.by])


def is_frame(data: Any) -> bool:
    """Whether data is an engine's frame, or the table of one. Imports no engine."""
    if type(data).__module__.split(".")[0] == "pyspark":
        return True
    from .engine import EngineSource

    return isinstance(data, EngineSource)


def engine_source(data: Any, selection: Selection = EVERYTHING) -> EngineSource | None:
    """The source of an engine's frame, or None where data is none. Imports no engine."""
    from .engine import EngineSource

    if selection.labels and is_frame(data):
        raise UsageError("by is an array, and the rows of a frame have no places. Name a column of the frame in by.")
    if isinstance(data, EngineSource):
        return _chosen_again(data, selection)
    if not is_frame(data):
        return None
    from .spark.people import open_spark

    return open_spark(data, selection)


def _chosen_again(source: EngineSource, selection: Selection) -> EngineSource:
    """A source that was opened already keeps its columns; other ones cannot be chosen now."""
    from .engine import NOT_GROUPED, EngineSource

    key = selection.key
    if key is not None and type(source).grouped is EngineSource.grouped:
        raise UsageError(NOT_GROUPED)
    names = as_names(selection.named().columns)
    other = names is not None and tuple(map(str, names)) not in (source.chosen, source.columns)
    whose = None if source.key_place is None else source.available[source.key_place]
    groups = tuple(source.available[place] for place in source.by_places)
    if other or (key is not None and str(key) != whose) or tuple(map(str, selection.by)) != groups:
        raise UsageError("data is a table that was opened with other columns. Choose them when opening it.")
    return source


_KINDS = (
    "a two-dimensional array, a table that speaks Arrow (pandas, polars, pyarrow, DuckDB), a dict of columns, a path, "
    "or a list of those or of rows"
)


def _is_path(data: Any) -> bool:
    return isinstance(data, (str, PathLike))


def open_table(data: Any, selection: Selection = EVERYTHING) -> Table:
    """A table of the rows in `data`: the columns that the selection takes, in its order.

    data: an array, an Arrow-speaking table or frame, a pyarrow data set or scanner, a query (`ellipsum.sql`), a path,
        glob or folder of CSV, Parquet or Feather files, a list of any one of these, an iterable of batches (an
        iterator serves one pass), a lazy frame or single column of polars or pandas, a dict of columns, a list of
        records (dicts) or a list of rows (lists or tuples); `python_objects` says what is taken of the last three.
    Raises UsageError for wrong columns, types and shapes; DataError for files that cannot be read.
    """
    if type(data) is np.ndarray:
        return ArrayTable(data, selection)
    if _is_path(data):
        from .paths import open_files

        return open_files([data], selection)
    if isinstance(data, (list, tuple)):
        return _open_list(data, selection)
    if isinstance(data, Mapping):
        from .python_objects import open_columns

        return open_columns(data, selection)
    return _open_whole(data, selection)


def _open_whole(data: Any, selection: Selection) -> Table:
    """What is data by itself, but no batch of it."""
    from .python_objects import is_series, open_series

    if is_series(data):
        return open_series(data, selection)
    if type(data).__name__ == "LazyFrame" and hasattr(data, "collect_schema"):
        from .arrow import LazyTable

        return LazyTable(data, selection)
    return _open_one(data, selection)


def _open_one(data: Any, selection: Selection) -> Table:
    if isinstance(data, np.ndarray):
        return ArrayTable(data, selection)
    home = type(data).__module__
    if home.startswith("ellipsum.sources.sql"):
        from .sql import open_query

        return open_query(data, selection)
    if home == "pyarrow._dataset":
        from .datasets import open_dataset

        return open_dataset(data, selection)
    if home.startswith("scipy.sparse"):
        raise UsageError("data is a sparse matrix. Pass data.toarray(), or a list of its parts so.")
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        from .arrow import ArrowTable

        return ArrowTable(data, selection)
    if hasattr(data, "__array__"):
        from .sealing import attempt

        array = attempt("data could not be turned into an array.", np.asarray, data)
        return ArrayTable(array, selection)
    if isinstance(data, IOBase):
        raise UsageError("data is an open file. Pass its path.")
    if isinstance(data, Iterable) and not isinstance(data, (Mapping, bytes, bytearray, set, frozenset)):
        from .batches import BatchesTable

        return BatchesTable(data, selection, _open_batch)
    raise UsageError(f"data must be {_KINDS}, got {type(data).__name__}.")


def _open_batch(batch: Any, selection: Selection) -> Table:
    """One batch of a list or iterable: anything that is itself a table in memory."""
    if type(batch).__module__.split(".")[0] == "pyspark":
        raise UsageError("A batch must be a table in memory, got a Spark frame. Pass one frame: unite several first.")
    if isinstance(batch, np.ndarray) or hasattr(batch, "__array__") or hasattr(batch, "__arrow_c_array__"):
        return _open_one(batch, selection)
    if hasattr(batch, "__arrow_c_stream__"):
        return _open_one(batch, selection)
    kind = type(batch).__name__
    raise UsageError(f"A batch must be a two-dimensional array or an Arrow table, got {kind}. Try numpy.asarray(data).")


def _open_list(data: list[Any] | tuple[Any, ...], selection: Selection) -> Table:
    from .batches import check_same

    if not data and selection.named().columns is None:
        raise UsageError(f"data is an empty list. Pass {_KINDS}, or name its columns.")
    if not data or isinstance(data[0], (Mapping, list, tuple)):  # a batch or a row: the type of the first decides
        from .python_objects import open_rows

        return open_rows(data, selection)
    if all(map(_is_path, data)):
        from .paths import open_files

        return open_files(data, selection)
    tables = [_open_batch(batch, selection) for batch in data]
    for index, table in enumerate(tables[1:], 1):
        check_same(tables[0], table, f"Batch {index}", "batch 0")
    if len(tables) == 1:
        return tables[0]
    return Chain(tables, [1.0] * len(tables))
