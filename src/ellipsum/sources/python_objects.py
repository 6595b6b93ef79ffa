"""Plain Python as a table: dicts of columns, lists of records or of rows, and single columns of a frame.

A list has no type: whatever stands in it is a value, which decides nothing [T1]. What is no number is a missing entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from ..errors import UsageError, named
from ..kernels.blocks import floats
from .arrays import NUMERIC_KINDS, array_places
from .arrow import ArrowTable, holds_objects, letters, library, not_a_number, of_python, reject_opaque
from .group_labels import beside, canonical_labels, texts
from .identities import canonical, identities
from .progress import Progress
from .protocol import Piece, Table, block_rows
from .sealing import attempt
from .selection import EVERYTHING, SIZED, Selection, as_names, pick

_UNREADABLE = "data could not be read. Pass plain dicts, lists or arrays."
_NUMBERS = (int, float, np.integer, np.floating, np.bool_, Decimal, Fraction)
_NAMELESS = (
    "columns is missing. Which keys a record has is its own affair: name the wanted ones in columns, or in rows, as in "
    "Box({'age': (0, 120)})."
)
_TAKEN = "privacy_id needs a column of its own, and data is a single column. Pass a table that holds both."
_UNEVEN = "The columns of data differ in length. Every column must have one entry for each row."


def number(value: Any) -> float:
    """The double nearest to a number; NaN for anything else, and beyond the doubles."""
    if not isinstance(value, _NUMBERS):
        return math.nan
    try:
        return float(value)
    except Exception:  # too large, or no number after all
        return math.nan


def numbers(values: Iterable[Any]) -> list[float]:
    return [value if type(value) is float else number(value) for value in values]


# Rows one by one ---------------------------------------------------------------------------------------


class RowsTable(Table):
    """A list of rows; `entries` gives the values of one (None: it has none), `owner` the person it belongs to.

    groups: what gives the cells that name its group; a list has no type, so they go by their texts.
    """

    ordered = True

    def __init__(
        self,
        data: Sequence[Any],
        width: int,
        columns: tuple[str, ...] | None,
        entries: Callable[[Any], Sequence[Any] | None],
        owner: Callable[[Any], Any] | None,
        groups: Sequence[Callable[[Any], Any]] = (),
    ) -> None:
        self._data, self._entries, self._owner, self._groups = data, entries, owner, groups
        self.width = width
        self.columns = self.available = self.chosen = columns
        self.gaps = (True,) * width
        self.key = None if owner is None else "binary"
        self.by = ("text",) * len(groups)

    def rows(self) -> int:
        return len(self._data)

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        total, step = self.rows(), block_rows(self.width)
        for start in range(0, total, step):
            yield attempt(_UNREADABLE, self._piece, self._data[start : start + step])
            if progress is not None:
                progress(min(1.0, (start + step) / total))

    def _piece(self, part: Sequence[Any]) -> Piece:
        nothing = [math.nan] * self.width
        found = map(self._entries, part)
        block = np.array([nothing if row is None else numbers(row) for row in found], np.float64)
        who = None if self._owner is None else canonical(identities(map(self._owner, part)), "binary")
        return beside([canonical_labels(texts(map(group, part)), "text") for group in self._groups], who), block


def open_rows(data: Sequence[Any], selection: Selection) -> RowsTable:
    """A list of records (dicts) or of rows (lists, tuples): whichever the first one is.

    A record's entries are those under the names in `columns`, or in what is known of rows; there is no other way to
    choose them. A row has as many entries as rows have names or, failing that, as the first has: its length is public.
    What is of another length or type counts as a row without entries. An empty list is one of no rows.
    """
    wanted = as_names(selection.named().columns)
    if isinstance(data[0], Mapping) if data else any(isinstance(name, str) for name in wanted or ()):
        return _open_records(data, selection, wanted)
    return _open_lists(data, selection)


def _open_records(data: Sequence[Any], selection: Selection, wanted: tuple[Any, ...] | None) -> RowsTable:
    if wanted is None:
        raise UsageError(_NAMELESS)
    key = selection.key
    pick(tuple(dict.fromkeys(map(str, (*wanted, *selection.beside)))), selection, "data")
    owner = None if key is None else (lambda record: _under(record, key))
    groups = [partial(_under, name=name) for name in selection.by]
    sized = SIZED.fullmatch(str(wanted[0])) if len(wanted) == 1 else None
    if sized is None:
        own = owner, groups
        return RowsTable(data, len(wanted), tuple(map(str, wanted)), lambda record: _under_all(record, wanted), *own)
    name, size = sized[1], int(sized[2])
    names = tuple(f"{name}[{j}]" for j in range(size))
    return RowsTable(data, size, names, lambda record: _vector(_under(record, name), size), owner, groups)


def _under(record: Any, name: Any) -> Any:
    return record.get(name) if isinstance(record, Mapping) else None


def _under_all(record: Any, names: tuple[Any, ...]) -> list[Any] | None:
    return [record.get(name) for name in names] if isinstance(record, Mapping) else None


def _open_lists(data: Sequence[Any], selection: Selection) -> RowsTable:
    length = _length(data, selection)
    picked, key, grouping = array_places(length, selection)
    places = range(length) if picked is None else picked
    if not places:
        raise UsageError("data has no column to use. Pass rows with at least one entry.")

    def entries(row: Any) -> list[Any] | None:
        vector = _vector(row, length)
        return None if vector is None else [vector[j] for j in places]

    owner = None if key is None else partial(_in_row, place=key)
    return RowsTable(data, len(places), None, entries, owner, [partial(_in_row, place=j) for j in grouping])


def _in_row(row: Any, place: int) -> Any:
    return row[place] if _is_row(row) and len(row) > place else None


def _length(data: Sequence[Any], selection: Selection) -> int:
    """Entries of a row: as many as rows have names, else as many as the first has, or as are asked for of none."""
    if selection.columns is None and selection.names:
        return len(selection.names) + len(selection.beside)
    asked = (*(as_names(selection.columns) or ()), *selection.beside)
    places = (place for place in asked if isinstance(place, (int, np.integer)))
    return len(data[0]) if data else 1 + int(max(places, default=-1))


def _is_row(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _vector(row: Any, length: int) -> Sequence[Any] | None:
    found: Sequence[Any] | None = row if _is_row(row) and len(row) == length else None
    return found


# Columns -----------------------------------------------------------------------------------------------


def open_columns(data: Mapping[Any, Any], selection: Selection) -> ArrowTable:
    """A dict of columns: lists, arrays or single columns of a frame, all of one length."""
    import pyarrow as pa

    available = tuple(map(str, data))
    chosen = pick(available, selection, "data")
    given = list(data.values())
    fields = [_field(available[i], given[i], chosen.size) for i in chosen.places]
    fields += [label_field(available[place], given[place]) for place in chosen.by]
    if chosen.key is not None:
        fields.append(_key_field(available[chosen.key], given[chosen.key]))
    if len({len(array) for _, array in fields}) > 1:
        raise UsageError(_UNEVEN)
    table = pa.table([array for _, array in fields], schema=pa.schema([field for field, _ in fields]))
    opened = ArrowTable(table, selection.of(chosen.chosen))
    opened.available = available
    return opened


def _field(name: str, values: Any, size: int | None) -> tuple[Any, Any]:
    """A column of values: its field, which has no nulls where its type has none, and the array."""
    import pyarrow as pa

    array = _array(name, values)
    if isinstance(array, (list, tuple, range)):
        array = attempt(_UNREADABLE, _listed, array, size)
    nullable = not (isinstance(values, np.ndarray) and values.dtype.kind in "biu" and not np.ma.isMaskedArray(values))
    return pa.field(name, array.type, nullable), array


def _key_field(name: str, values: Any) -> tuple[Any, Any]:
    import pyarrow as pa

    array = _array(name, values, identifies=True)
    if isinstance(array, (list, tuple, range)):
        array = attempt(_UNREADABLE, identities, array)
    return pa.field(name, array.type), array


def label_field(name: str, values: Any) -> tuple[Any, Any]:
    """A column that names groups: its field and the array; a list goes by its texts."""
    import pyarrow as pa

    array = _array(name, values, identifies=True)
    if isinstance(array, (list, tuple, range)):
        array = attempt(_UNREADABLE, texts, array)
    return pa.field(name, array.type), array


def _listed(values: Sequence[Any], size: int | None) -> Any:
    """A list of numbers or, where a size is declared, of vectors."""
    import pyarrow as pa

    if size is None:
        return pa.array(np.array(numbers(values), np.float64))
    nothing = [math.nan] * size
    vectors = (_vector(value, size) for value in values)
    flat = [entry for vector in vectors for entry in (nothing if vector is None else numbers(vector))]
    return pa.FixedSizeListArray.from_arrays(pa.array(np.array(flat, np.float64)), size)


def _array(name: str, values: Any, identifies: bool = False) -> Any:
    """A column as an Arrow array, by its type; a list, and an array of objects, as a list."""
    import pyarrow as pa

    if isinstance(values, (list, tuple, range)):
        return values
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if is_series(values):
        if identifies and holds_objects(values.dtype):
            return values.tolist()
        reject_opaque([values.dtype], (0,), (name,))
        return attempt(_UNREADABLE, lambda: values.to_arrow() if library(values) == "polars" else _pandas(values))
    if not isinstance(values, np.ndarray):
        raise UsageError(f"Column {named(name)} of data must be a list or an array, got {type(values).__name__}.")
    if values.ndim != 1:
        raise UsageError(f"Column {named(name)} of data must be one-dimensional, got {values.ndim} dimensions.")
    if values.dtype.kind == "O":
        return values.tolist()
    if not identifies and values.dtype.kind not in NUMERIC_KINDS:
        raise not_a_number(name, values.dtype.name, "data")
    mask = np.ma.getmaskarray(values) if np.ma.isMaskedArray(values) else None
    return attempt(_UNREADABLE, _typed, _native(np.ma.getdata(values)), mask)


def _typed(values: Any, mask: Any) -> Any:
    """An array by its type; also where letters are no characters."""
    import pyarrow as pa

    try:
        return pa.array(values, mask=mask)
    except UnicodeError:
        known = np.zeros(len(values), np.bool_) if mask is None else mask
        cells = [None if missing else cell for cell, missing in zip(values.tolist(), known.tolist(), strict=True)]
        return letters(cells)


def _pandas(series: Any) -> Any:
    import pyarrow as pa

    return letters(series) if of_python(series.dtype) else pa.array(series, from_pandas=True)


def _native(values: Any) -> Any:
    if values.dtype.kind == "f":
        return floats(values, np.float64)
    return values.astype(values.dtype.newbyteorder("="), copy=False)


# A single column ---------------------------------------------------------------------------------------


def is_series(data: Any) -> bool:
    """Whether data is a column of pandas or polars."""
    return type(data).__name__ == "Series" and library(data) in ("pandas", "polars")


def open_series(data: Any, selection: Selection) -> ArrowTable:
    """A table of one column, under its own name or none."""
    if data.name is not None and data.name != "":
        return ArrowTable(data.to_frame(str(data.name)), selection)
    if selection.key is not None:
        raise UsageError(_TAKEN)
    if selection.by:
        raise UsageError("by needs a column of its own, and data is a single column. Pass a table that holds both.")
    array_places(1, selection)
    opened = ArrowTable(data.to_frame("0"), EVERYTHING)
    opened.columns = opened.available = opened.chosen = None
    return opened
