"""Arrow data: blocks of rows from typed columns, and every source that supports the Arrow stream protocol."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from ..errors import UsageError, named, shown
from ..kernels.blocks import Block, Columns, Numbers, floats
from ..numerics.wide_integers import Ints
from .coded import Coder
from .group_labels import canonicalize_labels, join_cells, label_kind, to_texts
from .identities import canonicalize, encode_identities, key_kind, plain_type
from .local import Piece, RowReader, Table, block_rows
from .protocol import Progress, attempt, seal
from .selection import EVERYTHING, Pick, Selection, pick

if TYPE_CHECKING:
    import pandas

_OPAQUE = ("object", "sparse", "complex", "float128", "float96", "longdouble", "int128", "uint128", "period")
_UNREADABLE = "data could not be read through its Arrow stream. Check that its query or conversion runs by itself."


@dataclass(frozen=True)
class Layout:
    """How the chosen columns of one schema become the values of a row and the cells beside it.

    embedded: whether one column of lists is the whole row. single: whether float32 represents every column exactly.
    key: the kind of identities. Their column is read last. nullable: for each value, whether its type allows missing
    values. by: the kinds of the columns that identify groups. They are read before the column of identities. coder:
    turns the first columns beside the row into values.
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    embedded: bool
    single: bool
    key: str | None = None
    nullable: tuple[bool, ...] = ()
    by: tuple[str, ...] = ()
    coder: Coder | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of all columns beside a row, except the column of identities."""
        return self.by if self.coder is None else self.coder.kinds

    @property
    def arrays(self) -> int:
        """The number of columns that are read."""
        return len(self.names) + len(self.kinds) + (self.key is not None)

    @property
    def width(self) -> int:
        return len(self.columns)

    def without_cells(self) -> Layout:
        """The layout without the cells beside the row, unless some of these become values."""
        return self if self.coder is not None else replace(self, key=None, by=())


def is_numeric(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds numbers. A column of nulls counts as one."""
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def _is_single(kind: pa.DataType) -> bool:
    return bool(types.is_float32(kind) or types.is_float16(kind))


def not_a_number(name: str, kind: str, where: str) -> UsageError:
    """The error of a chosen column whose type is not numeric."""
    return UsageError(
        f"Column {named(name)} of {where} is of type {shown(kind)}, not a number. Name the numeric ones in columns."
    )


def value_layout(schema: pa.Schema, places: Sequence[int], where: str, size: int | None = None) -> Layout:
    """Make the layout of the chosen fields. A column that is not numeric is a usage error. Depends on types alone [T1].

    A single column of lists (embeddings) is a whole row if its type fixes the length or `size` declares it.
    """
    fields = [schema.field(i) for i in places]
    names = tuple(field.name for field in fields)
    kinds = [plain_type(field.type) for field in fields]
    length = _list_length(kinds[0], size, names[0], where) if len(kinds) == 1 else None
    if length:
        entries = tuple(f"{names[0]}[{j}]" for j in range(length))
        single = _is_single(plain_type(kinds[0].value_type))
        return Layout(names, entries, embedded=True, single=single, nullable=(True,) * length)
    for field, kind in zip(fields, kinds, strict=True):
        if not is_numeric(kind):
            raise not_a_number(field.name, str(field.type), where)
    nullable = tuple(field.nullable or not _is_always_finite(field.type) for field in fields)
    return Layout(names, names, embedded=False, single=all(map(_is_single, kinds)), nullable=nullable)


def _is_always_finite(kind: pa.DataType) -> bool:
    """Whether no value of this type is a NaN, an infinity or a null in a dictionary."""
    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return bool(types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def _list_length(kind: pa.DataType, size: int | None, name: str, where: str) -> int | None:
    """The length of the lists of a column, or None for a column that is not one of numeric lists."""
    lists, fixed = types.is_list(kind) or types.is_large_list(kind), types.is_fixed_size_list(kind)
    if not (lists or fixed) or not is_numeric(plain_type(kind.value_type)):
        if size is not None:
            raise not_a_number(name, str(kind), where)
        return None
    if fixed and size not in (None, kind.list_size):
        raise UsageError(
            f"columns declares lists of {size}, but those of {named(name)} in {where} are {kind.list_size} long."
        )
    if lists and size is None:
        raise UsageError(
            f"Column {named(name)} of {where} has lists of any length. Declare it, for example "
            f"columns='{shown(name)}[384]': a list of another length is then a missing row."
        )
    return int(kind.list_size) if fixed else size


def make_layout(schema: pa.Schema, chosen: Pick, where: str) -> Layout:
    """Make the layout of the chosen columns, including key and groups."""
    groups = [schema.field(place) for place in chosen.by]
    by = tuple(label_kind(field.type, field.name, where) for field in groups)
    key = None if chosen.key is None else schema.field(chosen.key)
    kind = None if key is None else key_kind(key.type, key.name, where)
    return replace(value_layout(schema, chosen.places, where, chosen.size), by=by, key=kind)


def _numbers(array: pa.Array) -> Numbers:
    """Convert an Arrow array to numbers, nulls to NaN. Nothing is copied if Arrow allows it."""
    if isinstance(array, pa.ExtensionArray):
        return _numbers(array.storage)
    kind = array.type
    if types.is_dictionary(kind):
        return _numbers(array.dictionary_decode())
    if types.is_null(kind):
        return np.full(len(array), np.nan)
    if types.is_boolean(kind):
        array = array.cast(pa.uint8())
    elif types.is_float16(kind):
        array = array.cast(pa.float32())
    elif types.is_decimal(kind):
        array = array.cast(pa.float64())
    if array.null_count == 0:
        return np.from_dlpack(array)  # pyarrow's own conversion imports pandas, which takes 0.2 s
    numbers: Numbers = array.to_numpy(zero_copy_only=False)
    return numbers


def _embeddings(array: pa.Array, width: int) -> Numbers:
    """Convert an array of lists to a matrix. A null list, or one of another length, becomes a row of NaN."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if not types.is_fixed_size_list(array.type):
        return _declared_embeddings(array, width)
    matrix = _numbers(array.values.slice(array.offset * width, len(array) * width)).reshape(len(array), width)
    if array.null_count:
        matrix = floats(matrix, np.float32 if matrix.dtype == np.float32 else np.float64, copy=True)
        matrix[array.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return matrix


def _declared_embeddings(array: pa.Array, width: int) -> Numbers:
    """Convert an array of lists that are declared to be `width` long."""
    valid = pc.fill_null(pc.list_value_length(array), -1).to_numpy(zero_copy_only=False) == width
    values = _numbers(array.filter(pa.array(valid)).flatten())
    matrix = np.full((len(array), width), np.nan, np.float32 if values.dtype == np.float32 else np.float64)
    matrix[valid] = floats(values.reshape(-1, width), matrix.dtype)
    return matrix


def _to_block(arrays: Sequence[pa.Array], plan: Layout, rows: int) -> Block:
    """Make one block. Columns of floats are used in place."""
    if not arrays:
        return np.empty((rows, 0))
    dtype = np.float32 if plan.single else np.float64
    if plan.embedded:
        return floats(_embeddings(arrays[0], plan.width), dtype)
    return Columns([np.require(floats(_numbers(array), dtype), requirements=["C", "A"]) for array in arrays])


def to_piece(arrays: Sequence[pa.Array], plan: Layout) -> Piece:
    """Make rows, and the cells beside them, from the arrays of the layout in its order."""
    entries = len(plan.names)
    who = None if plan.key is None else canonicalize(arrays[-1], plan.key)
    cells = zip(arrays[entries:], plan.kinds, strict=False)
    block = _to_block(arrays[:entries], plan, len(arrays[-1]) if arrays else 0)
    piece = join_cells([canonicalize_labels(array, kind) for array, kind in cells], who), block
    return piece if plan.coder is None else plan.coder(piece)


def cut_pieces(batch: pa.RecordBatch, places: Sequence[int], plan: Layout) -> Iterator[Piece]:
    """Cut a record batch into pieces of bounded size; places: the positions of the layout's columns."""
    step = block_rows(plan.width)
    arrays = [batch.column(i) for i in places]
    for start in range(0, batch.num_rows, step):
        yield to_piece([array.slice(start, step) for array in arrays], plan)


def copy_piece(piece: Piece) -> Piece:
    """Copy a piece. Other threads add its rows later, and the rows must not change until then."""
    cells, block = piece
    return None if cells is None else cells.copy_to(pa.default_cpu_memory_manager()), block.copy()


def library(data: object) -> str:
    """The package that defines the type of an object."""
    return type(data).__module__.split(".")[0].lstrip("_")


def _is_in_memory(data: object) -> bool:
    """Whether the rows are in memory. Another stream may be a query, so the order of its rows is not public [T9]."""
    if isinstance(data, (pa.Table, pa.RecordBatch, pa.Array, pa.ChunkedArray)):
        return True
    return library(data) in ("pandas", "polars") and type(data).__name__ == "DataFrame"


def _select(data: Any, labels: Sequence[str], chosen: Pick) -> Any:
    """Select the chosen columns of a frame or relation, in the order of `chosen.all`. No cell is converted yet."""
    home = library(data)
    if home == "duckdb":
        from .sql_backends import quote_name, select_identity, select_value

        select = [
            (select_identity if i in chosen.beside else select_value)(labels[i], data.types[i]) for i in chosen.all
        ]
        names = [quote_name(labels[i]) for i in chosen.all]
        return data.project(", ".join(f"{text} as {name}" for text, name in zip(select, names, strict=True)))
    if home == "pandas":
        frame = _select_pandas(data, chosen)
        kinds = map(_value_type, frame.dtypes)
    else:
        frame = data.select([labels[i] for i in chosen.all])
        kinds = frame.dtypes
    reject_opaque(kinds, [labels[i] for i in chosen.all])
    return frame


def _select_pandas(data: pandas.DataFrame, chosen: Pick) -> pandas.DataFrame:
    """Select the chosen columns. Identities and labels that are Python objects are converted to Arrow's types."""
    import pandas

    frame = data.iloc[:, list(chosen.all)].reset_index(drop=True)
    first_key = len(chosen.places) + len(chosen.by)
    for i in range(len(chosen.places), len(chosen.all)):
        column, kind = frame.iloc[:, i], frame.dtypes.iloc[i]
        if holds_objects(kind):  # each cell has a type of its own
            cells = to_texts(column) if i < first_key else encode_identities(column)
        elif is_python_text(kind):
            cells = encode_texts(column)
        else:
            continue
        frame.isetitem(i, pandas.Series(pandas.arrays.ArrowExtensionArray(cells)))
    return frame


def is_python_text(kind: object) -> bool:
    """Whether a pandas column has Python's texts. Arrow refuses some of these."""
    return getattr(kind, "storage", None) == "python"


def holds_objects(kind: object) -> bool:
    """Whether the cells of a pandas column, or its categories, are any Python objects."""
    return str(_value_type(kind)) == "object"


def encode_texts(cells: Iterable[object]) -> pa.Array:
    """Convert texts to Arrow's. Half a pair of surrogates is no character, but is kept unchanged [T6]."""
    encoded = [cell.encode("utf-8", "surrogatepass") if isinstance(cell, str) else None for cell in cells]
    return pa.array(encoded, pa.large_binary()).view(pa.large_string())


def _value_type(kind: Any) -> object:
    """The type of the values of a pandas column or, if it is categorical, of its categories."""
    categories = getattr(kind, "categories", None)
    return kind if categories is None else categories.dtype


def reject_opaque(kinds: Iterable[object], labels: Iterable[str]) -> None:
    """Raise a usage error for types that Arrow lacks. Their conversion fails, or depends on the cells [T1]."""
    for label, kind in zip(labels, map(str, kinds), strict=True):
        if kind.lower().startswith(_OPAQUE):
            raise UsageError(
                f"Column {named(label)} of data is of type {shown(kind)}, not a number. "
                "Name the numeric ones in columns, or convert it."
            )


class LayoutTable(Table):
    """A table whose source has an Arrow schema."""

    _plan: Layout
    _places: tuple[int, ...]

    def _choose(self, schema: pa.Schema, selection: Selection, where: str, unreadable: str) -> None:
        """Choose the columns of the schema that the selection names."""
        self.available = attempt(unreadable, lambda: tuple(schema.names))  # a damaged name is not text
        self._describe(schema, pick(self.available, selection, where), where, unreadable)

    def _describe(self, schema: pa.Schema, chosen: Pick, where: str, unreadable: str) -> None:
        self._plan = attempt(unreadable, make_layout, schema, chosen, where)
        self._places = chosen.all
        self.chosen, self.key, self.by = chosen.chosen, self._plan.key, self._plan.by
        self.columns, self.width, self.nullable = self._plan.columns, self._plan.width, self._plan.nullable

    @property
    def _names(self) -> list[str]:
        """The columns that are read, in the order of `_places`."""
        assert self.available is not None
        return [self.available[place] for place in self._places]

    def _cut(self, batches: Iterable[pa.RecordBatch], places: Sequence[int], failed: str) -> Iterator[Piece]:
        """Cut record batches into pieces, and replace foreign errors."""
        for batch in seal(failed, batches):
            yield from seal(failed, cut_pieces(batch, places, self._plan))


class ArrowTable(LayoutTable):
    """A source that supports the Arrow stream protocol: pyarrow, pandas, polars, DuckDB relations and others.

    A source without a length, such as a RecordBatchReader, is assumed to be one-shot.
    """

    def __init__(self, data: Any, selection: Selection = EVERYTHING) -> None:
        bare = isinstance(data, (pa.Array, pa.ChunkedArray)) and not types.is_struct(data.type)
        if bare or type(data).__name__ == "Series":
            raise UsageError("data is a single column, not a table. Pass a frame or table that contains it.")
        home = library(data)
        self._data = data
        self.reopenable = any(hasattr(type(data), name) for name in ("__len__", "num_rows", "shape"))
        self.ordered = _is_in_memory(data)
        if home in ("pandas", "polars", "duckdb"):
            self.available = tuple(str(name) for name in data.columns)
            chosen = pick(self.available, selection, "data")
            self._data = attempt(_UNREADABLE, _select, data, self.available, chosen)
            places = range(len(chosen.all))  # the chosen columns alone, in their order; pandas may add its index
            values, groups = len(chosen.places), len(chosen.places) + len(chosen.by)
            key = None if chosen.key is None else groups
            chosen = chosen._replace(places=tuple(places[:values]), by=tuple(places[values:groups]), key=key)
            reader = attempt(_UNREADABLE, self._stream, home == "duckdb")
        else:
            reader = attempt(_UNREADABLE, self._stream)
            self.available = tuple(reader.schema.names)
            chosen = pick(self.available, selection, "data")
        self._describe(reader.schema, chosen, "data", _UNREADABLE)
        if isinstance(data, (pa.Table, pa.RecordBatch)):
            self._rows = data.num_rows
        elif home in ("pandas", "polars"):
            self._rows = len(self._data)
        self._reader = None if self.reopenable else reader

    def row_reader(self) -> RowReader | None:
        """Read from one chunk of each column, which also replace the data: many small chunks would take long."""
        if not self.ordered:
            return None
        plan, places = self._plan.without_cells(), list(self._places)
        self._data = attempt(_UNREADABLE, lambda: self._stream().read_all().select(places).combine_chunks())
        self._places = tuple(range(len(places)))
        values = self._data.select(self._places[: len(plan.names)])

        def read(rows: Ints) -> Block:
            selected = values.take(pa.array(rows)).combine_chunks()
            return to_piece([column.chunk(0) for column in selected.columns], plan)[1]

        return read

    def _stream(self, schema_only: bool = False) -> pa.RecordBatchReader:
        source = self._data.limit(0) if schema_only else self._data
        if not hasattr(source, "__arrow_c_stream__"):
            source = pa.table(pa.record_batch(source))
        return pa.RecordBatchReader.from_stream(source)

    def _count(self) -> int:
        return sum(batch.num_rows for batch in seal(_UNREADABLE, attempt(_UNREADABLE, self._stream)))

    def _read(self, progress: Progress | None) -> Iterator[Piece]:
        reader = attempt(_UNREADABLE, self._stream) if self._reader is None else self._reader
        try:
            pieces = self._cut(reader, self._places, _UNREADABLE)
            # A one-shot stream may come from an iterator that writes the next batch to the same memory.
            yield from pieces if self.reopenable else map(copy_piece, pieces)
        finally:
            reader.close()


_FAILED = "The lazy frame could not be collected. Collect it by itself to see why."


class LazyTable(Table):
    """The chosen columns of a lazy frame. Once read, they are kept in memory. The row order is not public [T9]."""

    def __init__(self, data: Any, selection: Selection) -> None:
        names = attempt(_FAILED, data.collect_schema).names()
        self._query = data.select([names[i] for i in pick(names, selection, "data").all])
        self._selection = selection
        self._describe_like(ArrowTable(attempt(_FAILED, data.clear().collect), selection))

    @cached_property
    def _table(self) -> ArrowTable:
        return ArrowTable(attempt(_FAILED, self._query.collect), self._selection)

    def _count(self) -> int:
        return self._table.rows()

    def _read(self, progress: Progress | None) -> Iterator[Piece]:
        return self._table.pieces(progress)
