"""Plain Python objects as tables: dicts of columns, lists of records or of rows, and single columns of a frame.

A list has no type, so the types of its items are private and must not cause errors [T1]. An item that is not a number
is missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import UsageError, named
from ..kernels.blocks import Numbers, floats
from .arrays import NUMERIC_KINDS, array_places
from .arrow import ArrowTable, encode_texts, holds_objects, is_python_text, library, not_a_number, reject_opaque
from .group_labels import to_texts
from .identities import encode_identities
from .protocol import attempt
from .selection import EVERYTHING, SIZED, Name, Selection, as_names, pick

_Field = tuple[pa.Field, "pa.Array | pa.ChunkedArray"]
_UNREADABLE = "data could not be read. Pass plain dicts, lists or arrays."
_NUMBERS = (int, float, np.integer, np.floating, np.bool_, Decimal, Fraction)


def to_number(value: object) -> float:
    """Convert a number to the nearest double. Anything else, and what exceeds the doubles, becomes NaN."""
    if not isinstance(value, _NUMBERS):
        return math.nan
    try:
        return float(value)
    except Exception:  # too large, or not a number after all
        return math.nan


def to_numbers(values: Iterable[object]) -> list[float]:
    return [value if type(value) is float else to_number(value) for value in values]


def open_rows(data: Sequence[object], selection: Selection) -> ArrowTable:
    """Open a list of records (dicts) or of rows (lists, tuples). The type of the first one decides.

    The values of a record are found by the names in `columns`, or by the names of the bounds. The number of values of a
    row is the number of names or, without names, the length of the first row, which is public. An item of another
    length or type is a row whose values are all missing. An empty list has no rows.
    """
    requested = as_names(selection.named().columns)
    if isinstance(data[0], Mapping) if data else any(isinstance(name, str) for name in requested or ()):
        return _open_records(data, selection, requested)
    return _open_lists(data, selection)


def _open_records(data: Sequence[object], selection: Selection, requested: tuple[Name, ...] | None) -> ArrowTable:
    if requested is None:
        raise UsageError(
            "columns is missing. Records may have different keys: name those to use in columns, or in the bounds, as "
            "in Box({'age': (0, 120)})."
        )
    sized = SIZED.fullmatch(str(requested[0])) if len(requested) == 1 else None
    names = dict.fromkeys((*(requested if sized is None else (sized[1],)), *selection.beside)) or {"": None}

    def cells(name: Name) -> list[object]:
        return [record.get(name) if isinstance(record, Mapping) else None for record in data]

    return open_columns({name: attempt(_UNREADABLE, cells, name) for name in names}, selection)


def _open_lists(data: Sequence[object], selection: Selection) -> ArrowTable:
    length = _row_length(data, selection)
    selected, key, groups = array_places(length, selection)
    places = range(length) if selected is None else selected
    if not places and selection.coded is None:
        raise UsageError("data has no column to use. Pass rows with at least one value.")

    def values(place: int) -> list[object]:
        return [row[place] if _is_row(row) and len(row) == length else None for row in data]

    def cells(place: int) -> list[object]:
        return [row[place] if _is_row(row) and len(row) > place else None for row in data]

    fields = [_value_field(str(j), attempt(_UNREADABLE, values, j), None) for j in places]
    fields += [label_field(str(j), attempt(_UNREADABLE, cells, j)) for j in groups]
    fields += [] if key is None else [_cell_field(str(key), attempt(_UNREADABLE, cells, key), encode_identities)]
    if not fields:  # one column has to exist, so that rows can be counted
        fields = [label_field("0", [None] * len(data))]
    columns, key_name = [str(j) for j in places], None if key is None else str(key)
    return _nameless(
        _arrow_table(fields, Selection(columns, key_name, by=tuple(map(str, groups)), coded=selection.coded))
    )


def _nameless(table: ArrowTable) -> ArrowTable:
    """Remove the names of the columns."""
    table.columns = table.available = table.chosen = None
    return table


def _row_length(data: Sequence[object], selection: Selection) -> int:
    """Find the length of a row: the number of names, else the length of the first row, else the least possible."""
    if selection.columns is None and selection.names:
        return len(selection.names) + len(selection.beside)
    requested = (*(as_names(selection.columns) or ()), *selection.beside)
    places = (place for place in requested if isinstance(place, (int, np.integer)))
    return len(data[0]) if data and _is_row(data[0]) else 1 + int(max(places, default=-1))


def _is_row(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)


def open_columns(data: Mapping[Any, object], selection: Selection) -> ArrowTable:
    """Open a dict of columns: lists, arrays or single columns of a frame, all of one length."""
    available = tuple(map(str, data))
    chosen = pick(available, selection, "data")
    columns = list(data.values())
    fields = [_value_field(available[i], columns[i], chosen.size) for i in chosen.places]
    fields += [label_field(available[place], columns[place]) for place in chosen.by]
    if chosen.key is not None:
        fields.append(_cell_field(available[chosen.key], columns[chosen.key], encode_identities))
    if len({len(array) for _, array in fields}) > 1:
        raise UsageError("The columns of data differ in length. Every column must have one entry for each row.")
    table = _arrow_table(fields, selection.of(chosen.chosen))
    table.available = available
    return table


def _arrow_table(fields: Sequence[_Field], selection: Selection) -> ArrowTable:
    table = pa.table([array for _, array in fields], schema=pa.schema([field for field, _ in fields]))
    return ArrowTable(table, selection)


def _value_field(name: str, values: object, size: int | None) -> _Field:
    """Make the field and the array of a column of values. It is nullable unless its type excludes that."""
    array = _typed_column(name, values)
    if array is None:
        array = attempt(_UNREADABLE, _convert_values, _as_list(values), size)
    nullable = not (isinstance(values, np.ndarray) and values.dtype.kind in "biu" and not np.ma.isMaskedArray(values))
    return pa.field(name, array.type, nullable), array


def _cell_field(name: str, values: object, convert: Callable[[Iterable[object]], pa.Array]) -> _Field:
    """Make the field and the array of a column of identities or labels. `convert` is applied to a list."""
    array = _typed_column(name, values, is_value=False)
    if array is None:
        array = attempt(_UNREADABLE, convert, _as_list(values))
    return pa.field(name, array.type), array


def label_field(name: str, values: object) -> _Field:
    """Make the field and the array of a column that identifies groups. Items of a list are compared by their texts."""
    return _cell_field(name, values, to_texts)


def _convert_values(values: Sequence[object], size: int | None) -> pa.Array:
    """Convert a list of numbers or, if a size is declared, of vectors."""
    if size is None:
        return pa.array(np.array(to_numbers(values), np.float64))
    missing = [math.nan] * size
    rows = (to_numbers(value) if _is_row(value) and len(value) == size else missing for value in values)
    flat = [entry for row in rows for entry in row]
    return pa.FixedSizeListArray.from_arrays(pa.array(np.array(flat, np.float64)), size)


def _as_list(values: Any) -> Sequence[object]:
    """Convert a column of Python objects to a list."""
    return values if isinstance(values, (list, tuple, range)) else values.tolist()


def _typed_column(name: str, values: Any, is_value: bool = True) -> pa.Array | pa.ChunkedArray | None:
    """Convert a column to an Arrow array by its type. Return None for lists and Python objects, which have none."""
    if isinstance(values, (list, tuple, range)):
        return None
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if is_series(values):
        if not is_value and holds_objects(values.dtype):
            return None
        reject_opaque([values.dtype], [name])
        return attempt(_UNREADABLE, _from_series, values)
    if not isinstance(values, np.ndarray):
        raise UsageError(f"Column {named(name)} of data must be a list or an array, got {type(values).__name__}.")
    if values.ndim != 1:
        raise UsageError(f"Column {named(name)} of data must be one-dimensional, got {values.ndim} dimensions.")
    if values.dtype.kind == "O":
        return None
    if is_value and values.dtype.kind not in NUMERIC_KINDS:
        raise not_a_number(name, values.dtype.name, "data")
    mask = np.ma.getmaskarray(values) if np.ma.isMaskedArray(values) else None
    return attempt(_UNREADABLE, _from_numpy, np.ma.getdata(values), mask)


def _from_numpy(values: Numbers, mask: NDArray[np.bool_] | None) -> pa.Array:
    """Convert an array by its type, even if its texts are not valid Unicode."""
    if values.dtype.kind == "f":
        values = floats(values, np.float64)
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    try:
        return pa.array(values, mask=mask)
    except UnicodeError:
        cells = values.astype(object)
        if mask is not None:
            cells[mask] = None
        return encode_texts(cells)


def _from_series(series: Any) -> pa.Array | pa.ChunkedArray:
    if library(series) == "polars":
        return series.to_arrow()
    return encode_texts(series) if is_python_text(series.dtype) else pa.array(series, from_pandas=True)


def is_series(data: object) -> bool:
    """Whether data is a column of pandas or polars."""
    return type(data).__name__ == "Series" and library(data) in ("pandas", "polars")


def open_series(data: Any, selection: Selection) -> ArrowTable:
    """Open a single column of a frame, which may have a name."""
    if data.name is not None and data.name != "":
        return ArrowTable(data.to_frame(str(data.name)), selection)
    for argument, names in (("privacy_id", selection.key), ("by", selection.by)):
        if names is not None and names != ():
            raise UsageError(
                f"{argument} needs a column of its own, but data is a single column. Pass a table of both."
            )
    array_places(1, selection)
    return _nameless(ArrowTable(data.to_frame("0"), EVERYTHING))
