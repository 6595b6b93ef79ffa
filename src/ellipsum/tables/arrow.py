"""Arrow data: from typed columns to blocks of rows, and every source that speaks the Arrow stream protocol."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import UsageError
from .base import Block, Progress, attempt, block_rows, choose, sealed, single_pass

_TYPE_LETTERS = 60
_UNREADABLE = "data could not be read through its Arrow stream. Check that its query or conversion runs by itself."


@dataclass(frozen=True)
class Layout:
    """How the chosen columns of one schema become the entries of a row."""

    names: tuple[str, ...]
    columns: tuple[str, ...]
    embedded: bool
    single: bool  # float32 holds every column exactly

    @property
    def width(self) -> int:
        return len(self.columns)


def _plain(kind: Any) -> Any:
    """The type of the values themselves: beneath dictionaries and extensions."""
    import pyarrow as pa

    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind):
            kind = kind.value_type
        else:
            return kind


def _numeric(kind: Any) -> bool:
    from pyarrow import types

    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def _narrow(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_float32(kind) or types.is_float16(kind))


def not_a_number(name: str, kind: str, where: str) -> UsageError:
    """The error of a chosen column whose type is not numeric."""
    text = kind if len(kind) <= _TYPE_LETTERS else kind[:_TYPE_LETTERS] + "..."
    return UsageError(
        f"Column {name!r} of {where} is of type {text}, not a number. Name the numeric ones in columns."
    )


def layout(schema: Any, places: Sequence[int], where: str) -> Layout:
    """The layout of the chosen fields; a usage error if one of them holds no numbers.

    One fixed-size list alone (an embedding) is a whole row. Depends on the schema alone [T1].
    """
    from pyarrow import types

    fields = [schema.field(i) for i in places]
    names = tuple(field.name for field in fields)
    kinds = [_plain(field.type) for field in fields]
    if len(kinds) == 1 and types.is_fixed_size_list(kinds[0]) and _numeric(_plain(kinds[0].value_type)):
        entries = tuple(f"{names[0]}[{j}]" for j in range(kinds[0].list_size))
        if entries:
            return Layout(names, entries, True, _narrow(_plain(kinds[0].value_type)))
    for field, kind in zip(fields, kinds, strict=True):
        if not _numeric(kind):
            raise not_a_number(field.name, str(field.type), where)
    return Layout(names, names, False, all(map(_narrow, kinds)))


def _values(array: Any) -> Any:
    """The numbers of an Arrow array, nulls as NaN; without a copy where Arrow allows it."""
    import pyarrow as pa

    if isinstance(array, pa.ExtensionArray):
        return _values(array.storage)
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _values(array.dictionary_decode())
    if pa.types.is_null(kind):
        return np.full(len(array), np.nan)
    if pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    elif pa.types.is_float16(kind):
        array = array.cast(pa.float32())
    elif pa.types.is_decimal(kind):
        array = array.cast(pa.float64())
    return array.to_numpy(zero_copy_only=False)


def _embeddings(array: Any, width: int) -> Any:
    """A fixed-size list array as a matrix; a null list is a row of NaN."""
    import pyarrow as pa

    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    matrix = _values(array.values.slice(array.offset * width, len(array) * width)).reshape(len(array), width)
    if array.null_count:
        matrix = matrix.astype(np.float32 if matrix.dtype == np.float32 else np.float64)
        matrix[array.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return matrix


def to_block(arrays: Sequence[Any], plan: Layout) -> Block:
    """One block of rows; several columns are copied once, each in one run of memory."""
    dtype: Any = np.float32 if plan.single else np.float64
    block: Block
    if plan.embedded:
        block = np.asarray(_embeddings(arrays[0], plan.width), dtype)
    elif len(arrays) == 1:
        block = np.asarray(_values(arrays[0]), dtype).reshape(-1, 1)
    else:
        columns = np.empty((len(arrays), len(arrays[0])), dtype)
        for column, array in zip(columns, arrays, strict=True):
            column[:] = _values(array)
        block = columns.T
    return block


def blocks(batch: Any, places: Sequence[int], plan: Layout) -> Iterator[Block]:
    """A record batch in blocks of bounded size."""
    step = block_rows(plan.width)
    arrays = [batch.column(i) for i in places]
    for start in range(0, batch.num_rows, step):
        yield to_block([array.slice(start, step) for array in arrays], plan)


def _library(data: Any) -> str:
    return type(data).__module__.split(".")[0].lstrip("_")


def _narrowed(data: Any, columns: Any, exclude: Iterable[Any]) -> Any:
    """The frame of the chosen columns alone, where the library can tell them before any cell is converted."""
    library = _library(data)
    if library not in ("pandas", "polars", "duckdb"):
        return None
    labels = [str(name) for name in data.columns]
    places = choose(labels, columns, exclude, "data")
    if library == "pandas":
        frame = data.iloc[:, list(places)].reset_index(drop=True)
        for place, dtype in zip(places, frame.dtypes, strict=True):
            if str(dtype) == "object":  # its conversion would depend on the cells
                raise UsageError(
                    f"Column {labels[place]!r} of data is of type object, not a number. "
                    "Name the numeric ones in columns, or convert it."
                )
        return frame
    if library == "polars":
        return data.select([labels[i] for i in places])
    from duckdb import ColumnExpression

    return data.select(*[ColumnExpression(labels[i]) for i in places])


class ArrowTable:
    """A source that speaks the Arrow stream protocol: pyarrow, pandas, polars, DuckDB relations and others.

    A source without a length (a RecordBatchReader, say) is taken to be one-shot.
    """

    def __init__(self, data: Any, columns: Any = None, exclude: Iterable[Any] = ()) -> None:
        import pyarrow as pa

        bare = isinstance(data, (pa.Array, pa.ChunkedArray)) and not pa.types.is_struct(data.type)
        if bare or type(data).__name__ == "Series":
            raise UsageError("data is a single column, not a table. Pass a frame or table that holds it.")
        frame = attempt(_UNREADABLE, _narrowed, data, columns, exclude)
        self._data = data if frame is None else frame
        self.reopenable = any(hasattr(type(data), name) for name in ("__len__", "num_rows", "shape"))
        self._reader: Any = attempt(_UNREADABLE, self._stream, _library(data) == "duckdb")
        schema = self._reader.schema
        names = tuple(schema.names)
        if frame is None:
            places = choose(names, columns, exclude, "data")
        else:  # pandas may append its index: the chosen columns come first
            places = tuple(range(frame.shape[1] if _library(data) != "duckdb" else len(frame.columns)))
        self._places = places
        self._plan = layout(schema, places, "data")
        self.available = names if frame is None else tuple(str(name) for name in data.columns)
        self.chosen = self._plan.names
        self.columns = self._plan.columns
        self.width = self._plan.width
        self._rows: int | None = None
        if isinstance(data, (pa.Table, pa.RecordBatch)):
            self._rows = data.num_rows
        elif _library(data) in ("pandas", "polars"):
            self._rows = len(self._data)
        if self.reopenable:
            self._reader = None

    def _stream(self, schema_only: bool = False) -> Any:
        import pyarrow as pa

        source = self._data.limit(0) if schema_only else self._data
        if not hasattr(source, "__arrow_c_stream__"):
            source = pa.table(pa.record_batch(source))
        return pa.RecordBatchReader.from_stream(source)

    def rows(self) -> int:
        if self._rows is None:
            if not self.reopenable:
                raise UsageError("A one-shot source knows its rows only after its pass. Pass a table or a file.")
            self._rows = sum(batch.num_rows for batch in sealed(_UNREADABLE, attempt(_UNREADABLE, self._stream)))
        return self._rows

    def batches(self, progress: Progress | None = None) -> Iterator[Block]:
        reader = attempt(_UNREADABLE, self._stream) if self.reopenable else self._reader
        if reader is None:
            raise single_pass("This stream")
        self._reader = None
        return self._read(reader, progress)

    def _read(self, reader: Any, progress: Progress | None) -> Iterator[Block]:
        rows, total = 0, self._rows
        try:
            for batch in sealed(_UNREADABLE, reader):
                for block in sealed(_UNREADABLE, blocks(batch, self._places, self._plan)):
                    rows += len(block)
                    yield block
                    if progress is not None and total:
                        progress(min(1.0, rows / total))
        finally:
            reader.close()
        self._rows = rows
