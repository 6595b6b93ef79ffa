"""Numbers for groups: each key gets the next number when it is first seen, or those listed beforehand have theirs.

Which number a group gets depends on the order of rows, and is used for nothing but to find its sums again [G6].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import UsageError
from ..numerics.wide_integers import Ints
from ..request.groups import TWICE, Listed
from .group_labels import bits_of, from_bits, is_text, label_listed

NOBODY = -1
"""The number of rows that belong to no group."""
_PAIR_BITS = 32
_MISSING = 1 << 30
"""The number of a missing cell that was listed: no other cell has it."""


class Numbers:
    """Distinct 64-bit patterns, numbered as they come."""

    def __init__(self) -> None:
        self.size = 0
        self._values: Ints = np.empty(16, np.int64)
        self._slots: Ints = np.zeros(64, np.int64)

    @property
    def values(self) -> Ints:
        return self._values[: self.size]

    def codes(self, bits: Ints, valid: Any, absent: int, fixed: bool) -> Ints:
        """The number of each pattern; `absent` where none is there, and nobody's where it is new and all are fixed."""
        from .group_code_kernels import intern_numbers  # compiles

        if not fixed:
            self._make_room(len(bits))
        out = np.empty(len(bits), np.int64)
        self.size = intern_numbers(bits, valid, absent, fixed, self._slots, self._values, self.size, out)
        return out

    def _make_room(self, more: int) -> None:
        self._values = roomy(self._values, self.size, more)
        if 2 * (self.size + more) > self._slots.size:
            self._slots = _placed(self.values, self.size + more, False)


class Texts:
    """Distinct texts, numbered as they come."""

    def __init__(self) -> None:
        self.size = 0
        self._letters: Any = np.empty(64, np.uint8)
        self._ends: Ints = np.zeros(17, np.int64)
        self._hashes: Ints = np.empty(16, np.int64)
        self._slots: Ints = np.zeros(64, np.int64)

    def codes(self, cells: Any, absent: int, fixed: bool) -> Ints:
        from .group_code_kernels import intern_bytes  # compiles

        valid = cells.is_valid().to_numpy(zero_copy_only=False)
        _, offsets, letters = cells.buffers()
        starts = np.frombuffer(offsets, np.int64)[cells.offset : cells.offset + len(cells) + 1]
        text = np.empty(0, np.uint8) if letters is None else np.frombuffer(letters, np.uint8)
        if not fixed:
            self._make_room(len(cells), int(starts[-1] - starts[0]) if len(cells) else 0)
        out = np.empty(len(cells), np.int64)
        own = self._slots, self._letters, self._ends, self._hashes
        self.size = intern_bytes(text, starts, valid, absent, fixed, *own, self.size, out)
        return out

    def _make_room(self, more: int, letters: int) -> None:
        self._letters = roomy(self._letters, int(self._ends[self.size]), letters)
        self._ends = roomy(self._ends, self.size + 1, more)
        self._hashes = roomy(self._hashes, self.size, more)
        if 2 * (self.size + more) > self._slots.size:
            self._slots = _placed(self._hashes[: self.size], self.size + more, True)

    def array(self) -> Any:
        """All texts in the order of their numbers."""
        import pyarrow as pa

        ends = np.ascontiguousarray(self._ends[: self.size + 1])
        letters = np.ascontiguousarray(self._letters[: int(ends[-1])])
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(letters)]
        return pa.Array.from_buffers(pa.large_binary(), self.size, buffers)


def roomy(array: Any, used: int, more: int) -> Any:
    """The array, or a longer one that begins with what is used of it; what is new is zero."""
    if used + more <= len(array):
        return array
    longer = np.zeros((max(2 * len(array), used + more), *array.shape[1:]), array.dtype)
    longer[:used] = array[:used]
    return longer


def _placed(values: Ints, entries: int, hashed: bool) -> Ints:
    """Slots for so many entries, with these in them; hashed: the values are hashes already."""
    from .group_code_kernels import placed  # compiles

    slots = np.zeros(1 << (2 * entries + 1).bit_length(), np.int64)
    placed(values, slots, hashed)
    return slots


class KeyTable:
    """The groups that were met: each a key of one or several columns, and its number.

    kinds: how the cells of each column are compared (`labels.label_kind`). A missing cell names no group, unless it was
    listed. After `fix` no group is new: rows with other keys belong to none.
    """

    def __init__(self, kinds: tuple[str, ...]) -> None:
        self.kinds = kinds
        self._columns: list[Numbers | Texts] = [Texts() if is_text(kind) else Numbers() for kind in kinds]
        self._absent = [NOBODY] * len(kinds)
        self._pairs = [Numbers() for _ in kinds[1:]]
        self._alone: Numbers | None = None
        """Groups of a single column where a missing cell was listed."""
        self._fixed = False

    @property
    def size(self) -> int:
        return (self._alone or (self._pairs[-1] if self._pairs else self._columns[0])).size

    def codes(self, labels: list[Any]) -> Ints:
        """The group of each row, from canonical labels."""
        together: Ints | None = None
        for place, cells in enumerate(labels):
            codes = self._column(place, cells)
            together = codes if together is None else self._paired(place, together, codes)
        assert together is not None
        if self._alone is not None:
            return self._alone.codes(together, together >= 0, NOBODY, self._fixed)
        return together

    def _column(self, place: int, cells: Any) -> Ints:
        column, absent = self._columns[place], self._absent[place]
        if isinstance(column, Texts):
            return column.codes(cells, absent, self._fixed)
        return column.codes(*bits_of(cells), absent, self._fixed)

    def _paired(self, place: int, before: Ints, codes: Ints) -> Ints:
        valid = (before >= 0) & (codes >= 0)
        return self._pairs[place - 1].codes((before << _PAIR_BITS) | codes, valid, NOBODY, self._fixed)

    def enter(self, labels: list[Any]) -> Ints:
        """Enter public keys, missing ones too; from then on no group is new."""
        for place, cells in enumerate(labels):
            if cells.null_count:
                self._absent[place] = _MISSING
                self._alone = Numbers() if len(labels) == 1 else None
        codes = self.codes(labels)
        self._fixed = True
        return codes

    def places(self) -> list[Ints]:
        """For each group, the numbers of its cells, column by column."""
        if self._alone is not None:
            return [self._alone.values]
        if not self._pairs:
            return [np.arange(self.size)]
        codes: Ints = np.arange(self.size)
        found: list[Ints] = []
        for pair in reversed(self._pairs):
            both = pair.values[codes]
            found.append(both & ((1 << _PAIR_BITS) - 1))
            codes = both >> _PAIR_BITS
        return [codes, *reversed(found)]

    def labels(self) -> list[Any]:
        """The canonical labels of every group, in the order of their numbers."""
        return [self._label(place, codes) for place, codes in enumerate(self.places())]

    def _label(self, place: int, codes: Ints) -> Any:
        import pyarrow as pa

        column = self._columns[place]
        cells = column.array() if isinstance(column, Texts) else _stored(column.values, self.kinds[place])
        return cells.take(pa.array(codes, mask=codes == _MISSING))


def key_table(kinds: tuple[str, ...], listed: Listed | None) -> KeyTable:
    """An empty table of groups; where they are listed, a table of these alone, numbered in the order of the list."""
    keys = KeyTable(kinds)
    if listed is not None and np.unique(keys.enter(label_listed(listed, kinds))).size < listed.size:
        raise UsageError(TWICE)
    return keys


def _stored(bits: Ints, kind: str) -> Any:
    import pyarrow as pa

    if kind == "real":
        return pa.array(bits.view(np.float64))
    return pa.array(bits.view(np.uint64) if kind == "uint64" else bits)


def published(labels: list[Any], kinds: tuple[str, ...]) -> list[Any]:
    """Canonical labels as they are published: in their own types."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = []
    for cells, kind in zip(labels, kinds, strict=True):
        if is_text(kind):
            columns.append(cells.cast(pa.large_string()))
        else:
            bits, valid = bits_of(cells)
            values = from_bits(bits, kind)
            columns.append(pc.if_else(pa.array(valid), values, pa.scalar(None, values.type)))
    return columns
