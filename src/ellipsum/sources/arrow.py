"""Arrow data: from typed columns to blocks of rows, and every source that speaks the Arrow stream protocol."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import UsageError, named, shown
from ..kernels.blocks import Block, Columns, floats
from .group_labels import beside, canonical_labels, label_kind, texts
from .identities import canonical, identities, key_kind, plain_type
from .progress import Progress
from .protocol import Piece, Table, block_rows
from .sealing import attempt, own_copy, sealed, single_pass
from .selection import EVERYTHING, Pick, Selection, pick

_OPAQUE = ("object", "sparse", "complex", "float128", "float96", "longdouble", "int128", "uint128", "period")
_UNREADABLE = "data could not be read through its Arrow stream. Check that its query or conversion runs by itself."


@dataclass(frozen=True)
class Layout:
    """How the chosen columns of one schema become the entries of a row."""

    names: tuple[str, ...]
    columns: tuple[str, ...]
    embedded: bool
    single: bool  # float32 holds every column exactly
    key: str | None = None
    """The kind of identities; the arrays of a piece then end with theirs."""
    gaps: tuple[bool, ...] = ()
    """For each entry, whether it can be missing by its type."""
    by: tuple[str, ...] = ()
    """The kinds of columns that name groups; their arrays come before that of identities."""

    @property
    def width(self) -> int:
        return len(self.columns)


def is_numeric(kind: Any) -> bool:
    """Whether an Arrow type holds numbers, nulls alone among them."""
    from pyarrow import types

    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def _narrow(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_float32(kind) or types.is_float16(kind))


def not_a_number(name: str, kind: str, where: str) -> UsageError:
    """The error of a chosen column whose type is not numeric."""
    return UsageError(
        f"Column {named(name)} of {where} is of type {shown(kind)}, not a number. Name the numeric ones in columns."
    )


def layout(schema: Any, places: Sequence[int], where: str, size: int | None = None) -> Layout:
    """The layout of the chosen fields; a usage error if one of them holds no numbers.

    One list alone (an embedding) is a whole row, if its type fixes its length or `size` declares it. Depends on the
    schema alone [T1].
    """
    fields = [schema.field(i) for i in places]
    names = tuple(field.name for field in fields)
    kinds = [plain_type(field.type) for field in fields]
    length = _list_length(kinds[0], size, names[0], where) if len(kinds) == 1 else None
    if length:
        entries = tuple(f"{names[0]}[{j}]" for j in range(length))
        return Layout(names, entries, True, _narrow(plain_type(kinds[0].value_type)), gaps=(True,) * length)
    for field, kind in zip(fields, kinds, strict=True):
        if not is_numeric(kind):
            raise not_a_number(field.name, str(field.type), where)
    gaps = tuple(field.nullable or not _always_there(field.type) for field in fields)
    return Layout(names, names, False, all(map(_narrow, kinds)), gaps=gaps)


def _always_there(kind: Any) -> bool:
    """Whether a value of this type is never missing by itself: no NaN, no infinity, no null in a dictionary."""
    import pyarrow as pa

    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind))


def _list_length(kind: Any, size: int | None, name: str, where: str) -> int | None:
    """How long the lists of a column are, or None where it has none that can be rows."""
    from pyarrow import types

    lists = (
        types.is_list(kind) or types.is_large_list(kind) or types.is_list_view(kind) or types.is_large_list_view(kind)
    )
    fixed = types.is_fixed_size_list(kind)
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
            f"Column {named(name)} of {where} holds lists of any length. Declare it, columns='{shown(name)}[384]' say: "
            "a list of another length is then a missing row."
        )
    return int(kind.list_size) if fixed else size


def planned(schema: Any, chosen: Pick, where: str) -> Layout:
    """The layout of what was picked, its key and groups included."""
    plan = layout(schema, chosen.places, where, chosen.size)
    groups = [schema.field(place) for place in chosen.by]
    plan = replace(plan, by=tuple(label_kind(field.type, field.name, where) for field in groups))
    if chosen.key is None:
        return plan
    field = schema.field(chosen.key)
    return replace(plan, key=key_kind(field.type, field.name, where))


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
    """An array of lists as a matrix; a null list, or one of another length, is a row of NaN."""
    import pyarrow as pa

    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if not pa.types.is_fixed_size_list(array.type):
        return _declared(array, width)
    matrix = _values(array.values.slice(array.offset * width, len(array) * width)).reshape(len(array), width)
    if array.null_count:
        matrix = floats(matrix, np.float32 if matrix.dtype == np.float32 else np.float64, copy=True)
        matrix[array.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return matrix


def _declared(array: Any, width: int) -> Any:
    """An array of lists that are declared to be `width` long."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        array = _from_views(array)
    lengths = pc.fill_null(pc.list_value_length(array), -1).to_numpy(zero_copy_only=False)
    sound = lengths == width
    values = np.asarray(_values(array.filter(pa.array(sound)).flatten()))
    single = values.dtype == np.float32
    matrix = np.full((len(array), width), np.nan, np.float32 if single else np.float64)
    matrix[sound] = floats(values.reshape(-1, width), matrix.dtype)
    return matrix


def _from_views(array: Any) -> Any:
    """List views as lists; a null becomes an empty list. (pyarrow's own cast reads past its offsets.)"""
    import pyarrow as pa

    sizes = np.where(array.is_valid().to_numpy(zero_copy_only=False), array.sizes.to_numpy(), 0)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return pa.LargeListArray.from_arrays(pa.array(offsets), array.flatten())


def to_block(arrays: Sequence[Any], plan: Layout) -> Block:
    """One block of rows; columns of floats without nulls are taken as they lie."""
    dtype: Any = np.float32 if plan.single else np.float64
    if plan.embedded:
        return floats(_embeddings(arrays[0], plan.width), dtype)
    return Columns([np.require(floats(_values(array), dtype), requirements=["C", "A"]) for array in arrays])


def blocks(batch: Any, places: Sequence[int], plan: Layout) -> Iterator[Block]:
    """A record batch in blocks of bounded size."""
    step = block_rows(plan.width)
    arrays = [batch.column(i) for i in places]
    for start in range(0, batch.num_rows, step):
        yield to_block([array.slice(start, step) for array in arrays], plan)


def to_piece(arrays: Sequence[Any], plan: Layout) -> Piece:
    """The rows and, where the plan has a key, whose they are; where it has groups, which."""
    entries = len(arrays) - len(plan.by) - (plan.key is not None)
    who = None if plan.key is None else canonical(arrays[-1], plan.key)
    groups = zip(arrays[entries:], plan.by, strict=False)
    block = to_block(arrays[:entries], plan)
    return beside([canonical_labels(array, kind) for array, kind in groups], who), block


def pieces(batch: Any, places: Sequence[int], plan: Layout) -> Iterator[Piece]:
    """A record batch in pieces of bounded size; the key's place comes last."""
    step = block_rows(plan.width)
    arrays = [batch.column(i) for i in places]
    for start in range(0, batch.num_rows, step):
        yield to_piece([array.slice(start, step) for array in arrays], plan)


def library(data: Any) -> str:
    """The package that an object comes from."""
    return type(data).__module__.split(".")[0].lstrip("_")


def _in_memory(data: Any) -> bool:
    """Whether the rows lie in memory: other streams may be queries, and their rows have no places [T9]."""
    import pyarrow as pa

    if isinstance(data, (pa.Table, pa.RecordBatch, pa.Array, pa.ChunkedArray)):
        return True
    return library(data) in ("pandas", "polars") and type(data).__name__ == "DataFrame"


def _narrowed(data: Any, labels: Sequence[str], chosen: Pick) -> Any:
    """The frame of the chosen columns alone, and the key, before any cell is converted."""
    home = library(data)
    places = chosen.all
    if home == "pandas":
        import pandas

        frame = data.iloc[:, list(places)].reset_index(drop=True)
        for i in range(len(chosen.places), len(places)):  # of groups, then of the key
            column, kind = frame.iloc[:, i], frame.dtypes.iloc[i]
            if holds_objects(kind):  # its cells have types of their own
                cells = texts(column) if i < len(chosen.places) + len(chosen.by) else identities(column)
            elif of_python(kind):
                cells = letters(column)
            else:
                continue
            frame.isetitem(i, pandas.Series(pandas.arrays.ArrowExtensionArray(cells)))
        reject_opaque(map(_within, frame.dtypes), places, labels)
        return frame
    if home == "polars":
        frame = data.select([labels[i] for i in places])
        reject_opaque(frame.dtypes, places, labels)
        return frame
    from .sql_backends import identity, quoted, value

    wanted = [(identity if i in chosen.beside else value)(labels[i], data.types[i]) for i in places]
    return data.project(", ".join(f"{text} as {quoted(labels[i])}" for i, text in zip(places, wanted, strict=True)))


def of_python(kind: Any) -> bool:
    """Whether the texts of a pandas column are Python's, which may hold what Arrow refuses."""
    return getattr(kind, "storage", None) == "python"


def holds_objects(kind: Any) -> bool:
    """Whether the cells of a pandas column, or its categories, are any objects of Python's."""
    return str(_within(kind)) == "object"


def letters(cells: Iterable[Any]) -> Any:
    """Texts as Arrow's; half a pair of surrogates, which is no character, is kept as it is [T6]."""
    import pyarrow as pa

    kept = [cell.encode("utf-8", "surrogatepass") if isinstance(cell, str) else None for cell in cells]
    return pa.array(kept, pa.large_binary()).view(pa.large_string())


def _within(kind: Any) -> Any:
    """The type of a pandas column's values: beneath its categories."""
    categories = getattr(kind, "categories", None)
    return kind if categories is None else categories.dtype


def reject_opaque(types: Iterable[Any], places: Sequence[int], labels: Sequence[str]) -> None:
    """A usage error for types that Arrow has not: their conversion fails, or depends on the cells [T1]."""
    for place, kind in zip(places, map(str, types), strict=True):
        if kind.lower().startswith(_OPAQUE):
            raise UsageError(
                f"Column {named(labels[place])} of data is of type {shown(kind)}, not a number. "
                "Name the numeric ones in columns, or convert it."
            )


class LayoutTable(Table):
    """A table whose source has an Arrow schema."""

    _plan: Layout
    _places: tuple[int, ...]

    def _choose(self, schema: Any, selection: Selection, where: str, unreadable: str) -> Pick:
        """What the selection takes of the schema."""
        self.available = attempt(unreadable, lambda: tuple(schema.names))  # a damaged name is no text
        chosen = pick(self.available, selection, where)
        self._take(schema, chosen, where, unreadable)
        return chosen

    def _take(self, schema: Any, chosen: Pick, where: str, unreadable: str) -> None:
        self._plan = attempt(unreadable, planned, schema, chosen, where)
        self._places = chosen.all
        self.chosen, self.key, self.by = chosen.chosen, self._plan.key, self._plan.by
        self.columns, self.width, self.gaps = self._plan.columns, self._plan.width, self._plan.gaps

    @property
    def _names(self) -> list[str]:
        """The columns that are read, in the order of `_places`."""
        assert self.available is not None
        return [self.available[place] for place in self._places]

    def _cut(self, batches: Iterable[Any], places: Sequence[int], failed: str) -> Iterator[Piece]:
        """Record batches in pieces, foreign errors sealed."""
        for batch in sealed(failed, batches):
            yield from sealed(failed, pieces(batch, places, self._plan))


class ArrowTable(LayoutTable):
    """A source that speaks the Arrow stream protocol: pyarrow, pandas, polars, DuckDB relations and others.

    A source without a length (a RecordBatchReader, say) is taken to be one-shot.
    """

    def __init__(self, data: Any, selection: Selection = EVERYTHING) -> None:
        import pyarrow as pa

        bare = isinstance(data, (pa.Array, pa.ChunkedArray)) and not pa.types.is_struct(data.type)
        if bare or type(data).__name__ == "Series":
            raise UsageError("data is a single column, not a table. Pass a frame or table that holds it.")
        home = library(data)
        self._data = data
        self.reopenable = any(hasattr(type(data), name) for name in ("__len__", "num_rows", "shape"))
        self.ordered = _in_memory(data)
        self._reader: Any = None
        if home in ("pandas", "polars", "duckdb"):  # pandas may append its index: the chosen columns come first
            self.available = tuple(str(name) for name in data.columns)
            chosen = pick(self.available, selection, "data")
            self._data = attempt(_UNREADABLE, _narrowed, data, self.available, chosen)
            here = tuple(range(len(chosen.places)))
            behind = tuple(range(len(here), len(chosen.all)))
            key = None if chosen.key is None else behind[-1]
            chosen = chosen._replace(places=here, key=key, by=behind[: len(chosen.by)])
            self._reader = attempt(_UNREADABLE, self._stream, home == "duckdb")
        else:
            self._reader = attempt(_UNREADABLE, self._stream)
            self.available = tuple(self._reader.schema.names)
            chosen = pick(self.available, selection, "data")
        self._take(self._reader.schema, chosen, "data", _UNREADABLE)
        if isinstance(data, (pa.Table, pa.RecordBatch)):
            self._rows = data.num_rows
        elif home in ("pandas", "polars"):
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

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        reader = attempt(_UNREADABLE, self._stream) if self.reopenable else self._reader
        if reader is None:
            raise single_pass("This stream")
        self._reader = None
        return self._read(reader, progress)

    def _read(self, reader: Any, progress: Progress | None) -> Iterator[Piece]:
        found = self._cut(reader, self._places, _UNREADABLE)
        try:
            # A stream may come from a caller's iterator, which fills the same memory again.
            yield from self._counted(found if self.reopenable else map(own_copy, found), progress)
        finally:
            reader.close()


_FAILED = "The lazy frame could not be collected. Collect it by itself to see why."


class LazyTable(Table):
    """The chosen columns of a lazy frame, which are then held in memory."""

    ordered = False  # [T9]

    def __init__(self, data: Any, selection: Selection) -> None:
        schema = attempt(_FAILED, data.collect_schema)
        names = schema.names()
        chosen = pick(names, selection, "data")
        self._query = data.select([names[i] for i in chosen.all])
        self._selection = selection
        opened = ArrowTable(attempt(_FAILED, data.clear().collect), selection)
        self._describe_like(opened)

    @cached_property
    def _table(self) -> ArrowTable:
        return ArrowTable(attempt(_FAILED, self._query.collect), self._selection)

    def rows(self) -> int:
        return self._table.rows()

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        return self._table.pieces(progress)
