"""Arrays in memory. Floating-point numbers are used in place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..errors import UsageError, named
from ..kernels.blocks import Block, Numbers, floats
from .local import Piece, RowReader, Table, block_rows
from .protocol import Progress
from .selection import EVERYTHING, Name, Selection, as_names, pick

if TYPE_CHECKING:  # arrays alone need no Arrow
    import pyarrow as pa

NUMERIC_KINDS = "biuf"


def _check_positions(names: Iterable[Name], width: int, argument: str) -> None:
    for name in names:
        if isinstance(name, (bool, np.bool_)) or not isinstance(name, (int, np.integer)):
            raise UsageError(
                f"{argument} names {named(name)}, but an array has no column names. Use positions, or pass a table."
            )
        if not 0 <= name < width:
            raise UsageError(f"{argument} must contain positions from 0 to {width - 1}, got {name}.")


def array_places(width: int, selection: Selection) -> tuple[list[int] | None, int | None, list[int]]:
    """Find the positions of the values (None: all), of the key, and of the groups, in rows without names."""
    columns = as_names(selection.columns)
    key = () if selection.key is None else (selection.key,)
    for argument, names in (("privacy_id", key), ("by", selection.by), ("columns", columns or ())):
        _check_positions(names, width, argument)
    if not selection.beside and not columns:
        return (None if columns is None else []), None, []
    chosen = pick(list(map(str, range(width))), replace(selection, names=None), "data")
    return list(chosen.places), chosen.key, list(chosen.by)


def _arrow_type(data: Numbers) -> pa.DataType:
    """The Arrow type of a column that identifies people or groups."""
    import pyarrow as pa

    return pa.float64() if data.dtype.kind == "f" else pa.from_numpy_dtype(data.dtype.newbyteorder("="))


def _arrow_column(part: Numbers, place: int) -> pa.Array:
    """Convert one column to an Arrow array. Masked cells become nulls."""
    import pyarrow as pa

    column = part[:, place]
    dtype = np.float64 if column.dtype.kind == "f" else column.dtype.newbyteorder("=")
    numbers = floats(np.ma.getdata(column), dtype, copy=True)
    return pa.array(numbers, mask=np.ma.getmaskarray(column) if np.ma.isMaskedArray(column) else None)


class ArrayTable(Table):
    """A two-dimensional numeric array with one row for each record.

    Whole float32 and float64 arrays are one block without a copy. Integers, booleans, float16, long double, other
    byte orders, masked arrays and selected columns are converted one block at a time.
    """

    ordered = True

    def __init__(self, data: Numbers, selection: Selection = EVERYTHING) -> None:
        self._is_mapped = isinstance(data, np.memmap)
        masked = type(data) is not np.ndarray and np.ma.isMaskedArray(data)
        if not masked:
            data = np.asarray(data)  # slices of a matrix, for example, have other shapes
        dtype = data.dtype
        if dtype.kind not in NUMERIC_KINDS:
            raise UsageError(
                f"data must be an array of real numbers, got dtype {dtype.name}. Convert or drop other columns."
            )
        if data.ndim != 2:
            hint = " Use data.reshape(-1, 1) if each number is a row." if data.ndim == 1 else ""
            raise UsageError(f"data must be two-dimensional, (rows, columns), got {data.ndim} dimension(s).{hint}")
        self._data = data
        self._rows = int(data.shape[0])
        self._picked, self._key, self._groups = array_places(data.shape[1], selection)
        self.width = data.shape[1] if self._picked is None else len(self._picked)
        if self.width == 0 and selection.coded is None:
            raise UsageError("data has no column to use. Pass an array with at least one.")
        self.nullable = (dtype.kind == "f" or masked,) * self.width
        native = dtype.isnative and dtype.kind == "f" and dtype.itemsize in (4, 8)
        self._ready = native and self._picked is None and not masked
        if selection.beside:
            self._set_kinds()

    def _set_kinds(self) -> None:
        """Set how identities and groups are compared."""
        from .group_labels import label_kind
        from .identities import key_kind, no_identity

        dtype = self._data.dtype
        if self._key is not None:
            if dtype.kind == "f" and dtype.itemsize > 8:  # one double may stand for many long doubles
                raise no_identity(str(self._key), dtype.name, "data")
            self.key = key_kind(_arrow_type(self._data), str(self._key), "data")
        self.by = tuple(label_kind(_arrow_type(self._data), str(place), "data") for place in self._groups)

    def _read(self, progress: Progress | None) -> Iterator[Piece]:
        total = self.rows()
        step = max(total, 1) if self._ready else block_rows(self.width)
        for start in range(0, total, step):
            part = self._data[start : start + step]
            yield self._cells(part), np.asarray(part) if self._ready else self._convert(part)

    def row_reader(self) -> RowReader | None:
        return None if self._is_mapped else lambda rows: self._convert(self._data.take(rows, axis=0))

    def _cells(self, part: Numbers) -> pa.Array | None:
        if self._key is None and not self._groups:
            return None
        from .group_labels import canonicalize_labels, join_cells
        from .identities import canonicalize

        who = None if self._key is None or self.key is None else canonicalize(_arrow_column(part, self._key), self.key)
        groups = zip(self._groups, self.by, strict=True)
        return join_cells([canonicalize_labels(_arrow_column(part, place), kind) for place, kind in groups], who)

    def _convert(self, part: Numbers) -> Block:
        selected = part if self._picked is None else part[:, self._picked]
        dtype = np.float32 if selected.dtype.name in ("float16", "float32") else np.float64
        block = floats(np.ma.getdata(selected), dtype, copy=True)
        if np.ma.isMaskedArray(selected):
            block[np.ma.getmaskarray(selected)] = np.nan
        return block
