"""Arrays in memory: blocks are views where the numbers are already floating point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError, named
from ..kernels.blocks import Block, floats
from .group_labels import beside, canonical_labels, label_kind
from .identities import canonical, key_kind, no_identity
from .progress import Progress
from .protocol import Piece, Table, block_rows
from .selection import EVERYTHING, Selection, as_names

NUMERIC_KINDS = "biuf"


def _positions(names: Iterable[Any], width: int, argument: str) -> list[int]:
    places = []
    for name in names:
        if isinstance(name, (bool, np.bool_)) or not isinstance(name, (int, np.integer)):
            raise UsageError(
                f"{argument} names {named(name)}, but an array has no column names. State positions, or pass a table."
            )
        if not 0 <= name < width:
            raise UsageError(f"{argument} must hold positions from 0 to {width - 1}, got {name}.")
        places.append(int(name))
    if len(set(places)) < len(places):
        raise UsageError(f"{argument} names a position more than once. Name each once.")
    return places


def array_places(width: int, selection: Selection) -> tuple[list[int] | None, int | None, list[int]]:
    """What is taken of rows without names: places of the entries (None: all), of the key, and of what names groups."""
    key = None if selection.key is None else _positions((selection.key,), width, "privacy_id")[0]
    groups = _positions(selection.by, width, "by")
    beside = {*groups, key} - {None}
    if key in groups:
        raise UsageError(f"by and privacy_id are both {key}. A person is no group: name another column.")
    wanted = as_names(selection.columns)
    if wanted is None:
        return [j for j in range(width) if j not in beside] if beside else None, key, groups
    places = _positions(wanted, width, "columns")
    if key in places:
        raise UsageError(f"privacy_id is {key}, which is among columns. It names people: leave it out.")
    if beside & set(places):
        raise UsageError("by names a column that is among columns. It names groups: leave it out.")
    return places, key, groups


def _column(part: NDArray[Any], place: int) -> Any:
    """One column of an array, as Arrow has it."""
    import pyarrow as pa

    column = part[:, place]
    dtype = np.float64 if column.dtype.kind == "f" else column.dtype.newbyteorder("=")
    numbers = floats(np.ma.getdata(column), dtype, copy=True)
    masked = np.ma.getmaskarray(column) if np.ma.isMaskedArray(column) else None
    return pa.array(numbers, mask=masked)


def _label_of(data: NDArray[Any], place: int) -> str:
    """How the cells of a column are compared where they name groups."""
    import pyarrow as pa

    kind = pa.float64() if data.dtype.kind == "f" else pa.from_numpy_dtype(data.dtype.newbyteorder("="))
    return label_kind(kind, str(place), "data")


class ArrayTable(Table):
    """A two-dimensional numeric array, one row a record.

    Whole float32 and float64 arrays are handed out as one block without a copy; integers, booleans,
    float16, long double, other byte orders, masked arrays and picked columns are converted a block at a time.
    """

    ordered = True

    def __init__(self, data: NDArray[Any], selection: Selection = EVERYTHING) -> None:
        masked = type(data) is not np.ndarray and np.ma.isMaskedArray(data)
        if not masked:
            data = np.asarray(data)  # a matrix, say, has slices of other shapes
        dtype = data.dtype
        if dtype.kind not in NUMERIC_KINDS:
            raise UsageError(
                f"data must be an array of real numbers, got dtype {dtype.name}. Convert or drop other columns."
            )
        if data.ndim != 2:
            hint = " Use data.reshape(-1, 1) if each number is a row." if data.ndim == 1 else ""
            raise UsageError(f"data must be two-dimensional, (rows, columns), got {data.ndim} dimension(s).{hint}")
        self._data = data
        self._picked, self._key, self._groups = array_places(data.shape[1], selection)
        self.key = None if self._key is None else self._kind_of(data, self._key)
        self.by = tuple(_label_of(data, place) for place in self._groups) if self._groups else ()
        self.width = data.shape[1] if self._picked is None else len(self._picked)
        if self.width == 0:
            raise UsageError("data has no column to use. Pass an array with at least one.")
        self.gaps = (dtype.kind == "f" or masked,) * self.width
        native = dtype.isnative and dtype.kind == "f" and dtype.itemsize in (4, 8)
        self._ready = native and self._picked is None and not masked

    @staticmethod
    def _kind_of(data: NDArray[Any], key: int) -> str:
        import pyarrow as pa

        if data.dtype.kind == "f" and data.dtype.itemsize > 8:  # a double may stand for many of them
            raise no_identity(str(key), data.dtype.name, "data")
        kind = pa.float64() if data.dtype.kind == "f" else pa.from_numpy_dtype(data.dtype.newbyteorder("="))
        return key_kind(kind, str(key), "data")

    def rows(self) -> int:
        return int(self._data.shape[0])

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        total = self.rows()
        step = max(total, 1) if self._ready else block_rows(self.width)
        for start in range(0, total, step):
            part = self._data[start : start + step]
            yield self._keys(part), np.asarray(part) if self._ready else self._convert(part)
            if progress is not None:
                progress(min(1.0, (start + step) / total))

    def _keys(self, part: NDArray[Any]) -> Any:
        if self._key is None and not self._groups:
            return None
        who = None if self._key is None or self.key is None else canonical(_column(part, self._key), self.key)
        groups = zip(self._groups, self.by, strict=True)
        return beside([canonical_labels(_column(part, place), kind) for place, kind in groups], who)

    def _convert(self, part: NDArray[Any]) -> Block:
        picked = part if self._picked is None else part[:, self._picked]
        dtype = np.float32 if picked.dtype.name in ("float16", "float32") else np.float64
        block: Any = floats(np.ma.getdata(picked), dtype, copy=True)
        if np.ma.isMaskedArray(picked):
            block[np.ma.getmaskarray(picked)] = np.nan
        converted: Block = block
        return converted
