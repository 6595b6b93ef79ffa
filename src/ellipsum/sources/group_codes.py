"""Numbers for groups: each key gets the next number when it is first seen, or those listed beforehand have theirs.

Which number a group gets depends on the order of rows, and is used for nothing but to find its sums again [G6].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import UsageError
from ..kernels.codegen import address, fetch_ahead
from ..numerics.wide_integers import Ints
from ..request.groups import TWICE, Listed
from ..util.compile import compiled, inner
from .group_labels import bits_of, is_text, label_listed

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

    slots = np.zeros(1 << (2 * entries + 1).bit_length(), np.int64)
    placed(values, slots, hashed)
    return slots


class KeyTable:
    """The groups that were met: each a key of one or several columns, and its number.

    kinds: how the cells of each column are compared (`group_labels.label_kind`). A missing cell names no group, unless
    it was listed. After `fix` no group is new: rows with other keys belong to none.
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


_MIX, _LAST = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_AHEAD = 12  # entries: about as long as memory takes to answer
_CHUNK = 64  # texts whose hashes are worked out before they are looked up
_FOLD, _SEED = np.uint64(32), np.uint64(0x243F6A8885A308D3)


@inner
def mixed(bits: Any) -> Any:
    """64 bits, stirred."""
    h = np.uint64(bits) * _MIX
    h = (h ^ (h >> _FOLD)) * _LAST
    return np.int64(h ^ (h >> _FOLD))


@inner
def _hash(text: Any, start: Any, stop: Any) -> Any:
    h = _SEED
    for i in range(start, stop):
        h = (h ^ np.uint64(text[i])) * _MIX
        h ^= h >> _FOLD
    return mixed(h)


@inner
def _first_free(hashed: Any, slots: Any) -> Any:
    mask = slots.size - 1
    s = hashed & mask
    while slots[s] != 0:
        s = (s + 1) & mask
    return s


@compiled
def placed(values: Any, slots: Any, hashed: bool) -> None:
    """Enter numbered entries into empty slots; hashed: the values are hashes already."""
    for k in range(values.size):
        slots[_first_free(values[k] if hashed else mixed(values[k]), slots)] = k + 1


@compiled
def intern_numbers(
    bits: Any, valid: Any, absent: int, fixed: bool, slots: Any, values: Any, size: int, out: Any
) -> int:
    """out[i]: the number of bits[i] among the values, a new one at the end unless `fixed`; how many there are now."""
    mask, last = slots.size - 1, bits.size - 1
    for i in range(bits.size):
        fetch_ahead(address(slots) + 8 * (mixed(bits[min(i + _AHEAD, last)]) & mask))
        if not valid[i]:
            out[i] = absent
            continue
        key = bits[i]
        s = mixed(key) & mask
        while slots[s] != 0 and values[slots[s] - 1] != key:
            s = (s + 1) & mask
        if slots[s] == 0:
            if fixed:
                out[i] = -1
                continue
            values[size] = key
            size += 1
            slots[s] = size
        out[i] = slots[s] - 1
    return size


@inner
def _same(text: Any, start: Any, stop: Any, letters: Any, begin: Any, end: Any) -> bool:
    if stop - start != end - begin:
        return False
    for i in range(stop - start):  # noqa: SIM110
        if text[start + i] != letters[begin + i]:
            return False
    return True


@inner
def _hash_ahead(
    text: Any, starts: Any, first: int, last: int, slots: Any, hashes: Any, ends: Any, hashed_texts: Any
) -> None:
    """The hashes of some texts; what looking them up will touch is asked for."""
    mask = slots.size - 1
    for i in range(first, last):
        hashed_texts[i - first] = _hash(text, starts[i], starts[i + 1])
        fetch_ahead(address(slots) + 8 * (hashed_texts[i - first] & mask))
    for i in range(first, last):
        k = slots[hashed_texts[i - first] & mask]
        fetch_ahead(address(hashes) + 8 * k)
        fetch_ahead(address(ends) + 8 * k)


@compiled
def intern_bytes(
    text: Any,
    starts: Any,
    valid: Any,
    absent: int,
    fixed: bool,
    slots: Any,
    letters: Any,
    ends: Any,
    hashes: Any,
    size: int,
    out: Any,
) -> int:
    """As `intern_numbers`, for texts: those of the cells one after the other, and those of the entries in `letters`."""
    mask = slots.size - 1
    hashed_texts = np.empty(_CHUNK, np.int64)
    for i in range(valid.size):
        if i % _CHUNK == 0:
            _hash_ahead(text, starts, i, min(i + _CHUNK, valid.size), slots, hashes, ends, hashed_texts)
        if not valid[i]:
            out[i] = absent
            continue
        start, stop = starts[i], starts[i + 1]
        hashed = hashed_texts[i % _CHUNK]
        s = hashed & mask
        while slots[s] != 0:
            k = slots[s] - 1
            if hashes[k] == hashed and _same(text, start, stop, letters, ends[k], ends[k + 1]):
                break
            s = (s + 1) & mask
        if slots[s] == 0:
            if fixed:
                out[i] = -1
                continue
            for j in range(stop - start):
                letters[ends[size] + j] = text[start + j]
            ends[size + 1] = ends[size] + stop - start
            hashes[size] = hashed
            size += 1
            slots[s] = size
        out[i] = slots[s] - 1
    return size


@compiled
def stir_numbers(bits: Any, valid: Any, out: Any) -> None:
    """Stir one more column of numbers into a hash of each row."""
    for i in range(out.size):
        out[i] = mixed(out[i] ^ (mixed(bits[i]) if valid[i] else 1))


@compiled
def stir_bytes(text: Any, starts: Any, valid: Any, out: Any) -> None:
    """Stir one more column of texts into a hash of each row."""
    for i in range(out.size):
        out[i] = mixed(out[i] ^ (_hash(text, starts[i], starts[i + 1]) if valid[i] else 1))
