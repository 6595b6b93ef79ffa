"""Codes of groups: each key gets the next code when it first occurs. Listed keys get their codes in advance.

The code of a group depends on the order of rows. It is used only to find the sums of the group again [G6].
"""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import UsageError
from ..kernels.codegen import address, fetch_ahead
from ..numerics.wide_integers import Ints
from ..request.groups import TWICE, Listed
from ..util.compile import compiled, inner
from .group_labels import label_listed, label_type, to_bits

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Number = TypeVar("Number", bound=np.generic)
NO_GROUP = -1
"""The code of rows that belong to no group."""
_PAIR_BITS = 32
_MISSING = 1 << 30
"""The code of a missing cell that was listed. No other cell has it."""


class CellTexts(NamedTuple):
    """The texts of an Arrow column, as compiled functions read them: text i is letters[ends[i]:ends[i + 1]]."""

    letters: Bytes
    ends: Ints
    valid: Flags

    @staticmethod
    def of(cells: pa.Array) -> CellTexts:
        _, offsets, letters = cells.buffers()
        ends = np.frombuffer(offsets, np.int64)[cells.offset : cells.offset + len(cells) + 1]
        text = np.empty(0, np.uint8) if letters is None else np.frombuffer(letters, np.uint8)
        return CellTexts(text, ends, cells.is_valid().to_numpy(zero_copy_only=False))


class _KnownTexts(NamedTuple):
    """The distinct texts so far, as compiled functions extend them."""

    letters: Bytes
    ends: Ints
    hashes: Ints


class Numbers:
    """The codes of distinct 64-bit patterns."""

    def __init__(self) -> None:
        self.size = 0
        self._values: Ints = np.empty(16, np.int64)
        self._slots: Ints = np.zeros(64, np.int64)

    @property
    def values(self) -> Ints:
        return self._values[: self.size]

    def codes(self, bits: Ints, valid: Flags, missing: int, fixed: bool) -> Ints:
        """The code of each pattern: `missing` if it is not valid, NO_GROUP if it is new although codes are fixed."""
        if not fixed:
            self._values = enlarge(self._values, self.size, len(bits))
            self._slots = _enlarge_slots(self._slots, self.values, self.size + len(bits), False)
        out = np.empty(len(bits), np.int64)
        self.size = intern_numbers(bits, valid, missing, fixed, self._slots, self._values, self.size, out)
        return out


class Texts:
    """The codes of distinct texts."""

    def __init__(self) -> None:
        self.size = 0
        self._known = _KnownTexts(np.empty(64, np.uint8), np.zeros(17, np.int64), np.empty(16, np.int64))
        self._slots: Ints = np.zeros(64, np.int64)

    def codes(self, cells: pa.Array, missing: int, fixed: bool) -> Ints:
        """The code of each text, as in `Numbers.codes`."""
        texts = CellTexts.of(cells)
        if not fixed:
            self._make_room(len(cells), int(texts.ends[-1] - texts.ends[0]))
        out = np.empty(len(cells), np.int64)
        self.size = intern_texts(texts, missing, fixed, self._slots, self._known, self.size, out)
        return out

    def _make_room(self, more: int, more_letters: int) -> None:
        letters, ends, hashes = self._known
        letters = enlarge(letters, int(ends[self.size]), more_letters)
        ends, hashes = enlarge(ends, self.size + 1, more), enlarge(hashes, self.size, more)
        self._known = _KnownTexts(letters, ends, hashes)
        self._slots = _enlarge_slots(self._slots, hashes[: self.size], self.size + more, True)

    def array(self) -> pa.Array:
        """All texts in the order of their codes."""
        ends = np.ascontiguousarray(self._known.ends[: self.size + 1])
        letters = np.ascontiguousarray(self._known.letters[: int(ends[-1])])
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(letters)]
        return pa.Array.from_buffers(pa.large_binary(), self.size, buffers)


def enlarge(array: NDArray[Number], used: int, more: int) -> NDArray[Number]:
    """Return the array, or a longer one that begins with the used part and is zero elsewhere."""
    if used + more <= len(array):
        return array
    longer = np.zeros((max(2 * len(array), used + more), *array.shape[1:]), array.dtype)
    longer[:used] = array[:used]
    return longer


def _enlarge_slots(slots: Ints, values: Ints, entries: int, hashed: bool) -> Ints:
    """Return the slots, or a larger table of these values, so that `entries` fill at most half."""
    if 2 * entries <= slots.size:
        return slots
    slots = np.zeros(1 << (2 * entries + 1).bit_length(), np.int64)
    fill_slots(values, slots, hashed)
    return slots


class KeyTable:
    """The groups that occur: the key of each, of one or several columns, and its code.

    kinds: how the cells of each column are compared (`group_labels.label_kind`). A row with a missing cell belongs to
    no group, unless the cell was listed. After `enter`, rows with other keys belong to no group.
    """

    def __init__(self, kinds: tuple[str, ...]) -> None:
        self.kinds = kinds
        self.lock = Lock()
        """A thread holds it while it assigns codes."""
        self._columns: list[Numbers | Texts] = [Texts() if kind == "text" else Numbers() for kind in kinds]
        self._missing = [NO_GROUP] * len(kinds)
        self._pairs = [Numbers() for _ in kinds[1:]]
        self._single: Numbers | None = None
        """The groups of one column, if a missing cell was listed. Else None."""
        self.fixed = False

    @property
    def size(self) -> int:
        return (self._single or (self._pairs[-1] if self._pairs else self._columns[0])).size

    def codes(self, labels: list[pa.Array]) -> Ints:
        """The code of each row's group, from canonical labels."""
        codes = self._column_codes(0, labels[0])
        for place, cells in enumerate(labels[1:], 1):
            these = self._column_codes(place, cells)
            valid = (codes >= 0) & (these >= 0)
            codes = self._pairs[place - 1].codes((codes << _PAIR_BITS) | these, valid, NO_GROUP, self.fixed)
        if self._single is not None:
            return self._single.codes(codes, codes >= 0, NO_GROUP, self.fixed)
        return codes

    def _column_codes(self, place: int, cells: pa.Array) -> Ints:
        column, missing = self._columns[place], self._missing[place]
        if isinstance(column, Texts):
            return column.codes(cells, missing, self.fixed)
        return column.codes(*to_bits(cells), missing, self.fixed)

    def enter(self, labels: list[pa.Array]) -> Ints:
        """Enter public keys, which may have missing cells. After that no group is new."""
        for place, cells in enumerate(labels):
            if cells.null_count:
                self._missing[place] = _MISSING
                self._single = Numbers() if len(labels) == 1 else None
        codes = self.codes(labels)
        self.fixed = True
        return codes

    def labels(self) -> list[pa.Array]:
        """The canonical labels of every group, in the order of the codes."""
        codes: Ints = np.arange(self.size) if self._single is None else self._single.values
        labels: list[pa.Array] = []
        for place in reversed(range(len(self.kinds))):
            cell_codes = codes
            if place > 0:
                both = self._pairs[place - 1].values[codes]
                codes, cell_codes = both >> _PAIR_BITS, both & ((1 << _PAIR_BITS) - 1)
            labels.insert(0, self._label(place, cell_codes))
        return labels

    def _label(self, place: int, codes: Ints) -> pa.Array:
        column = self._columns[place]
        cells = (
            column.array() if isinstance(column, Texts) else pa.array(column.values).view(label_type(self.kinds[place]))
        )
        return cells.take(pa.array(codes, mask=codes == _MISSING))


def key_table(kinds: tuple[str, ...], listed: Listed | None) -> KeyTable:
    """Make an empty table of groups or, if groups are listed, a table of these in the order of the list."""
    keys = KeyTable(kinds)
    if listed is not None and np.unique(keys.enter(label_listed(listed, kinds))).size < listed.size:
        raise UsageError(TWICE)
    return keys


_MIX, _LAST = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_AHEAD = 12  # entries: their work takes about as long as one access to memory
_CHUNK = 64  # texts that are hashed before they are looked up
_FOLD, _SEED = np.uint64(32), np.uint64(0x243F6A8885A308D3)


@inner
def mix_bits(bits: int) -> int:
    """A hash of 64 bits."""
    h = np.uint64(bits) * _MIX
    h = (h ^ (h >> _FOLD)) * _LAST
    return np.int64(h ^ (h >> _FOLD))  # type: ignore[return-value]


@inner
def _hash(letters: Bytes, start: int, stop: int) -> int:
    h = _SEED
    for i in range(start, stop):
        h = (h ^ np.uint64(letters[i])) * _MIX
        h ^= h >> _FOLD
    return mix_bits(h)  # type: ignore[arg-type]


@compiled
def fill_slots(values: Ints, slots: Ints, hashed: bool) -> None:
    """Enter values in empty slots as codes 0, 1, 2, ...; hashed: whether the values are hashes."""
    mask = slots.size - 1
    for k in range(values.size):
        s = (values[k] if hashed else mix_bits(values[k])) & mask
        while slots[s] != 0:
            s = (s + 1) & mask
        slots[s] = k + 1


@compiled
def intern_numbers(
    bits: Ints, valid: Flags, missing: int, fixed: bool, slots: Ints, values: Ints, size: int, out: Ints
) -> int:
    """Set out[i] to the code of bits[i], and add new bits to the values unless `fixed`. Returns their number."""
    mask, last = slots.size - 1, bits.size - 1
    for i in range(bits.size):  # request the slot of a later entry, and the value that a nearer entry's slot refers to
        fetch_ahead(address(slots) + 8 * (mix_bits(bits[min(i + 2 * _AHEAD, last)]) & mask))
        fetch_ahead(address(values) + 8 * (slots[mix_bits(bits[min(i + _AHEAD, last)]) & mask] - 1))
        if not valid[i]:
            out[i] = missing
            continue
        key = bits[i]
        s = mix_bits(key) & mask
        while slots[s] != 0 and values[slots[s] - 1] != key:
            s = (s + 1) & mask
        if slots[s] == 0:
            if fixed:
                out[i] = NO_GROUP
                continue
            values[size] = key
            size += 1
            slots[s] = size
        out[i] = slots[s] - 1
    return size


@inner
def _is_same(texts: CellTexts, i: int, known: _KnownTexts, k: int) -> bool:
    start, begin = texts.ends[i], known.ends[k]
    length = texts.ends[i + 1] - start
    if length != known.ends[k + 1] - begin:
        return False
    for j in range(length):  # noqa: SIM110
        if texts.letters[start + j] != known.letters[begin + j]:
            return False
    return True


@inner
def _hash_ahead(texts: CellTexts, first: int, last: int, slots: Ints, known: _KnownTexts, hashes: Ints) -> None:
    """Hash some texts, and request the memory that the search for them will read."""
    mask = slots.size - 1
    for i in range(first, last):
        hashes[i - first] = _hash(texts.letters, texts.ends[i], texts.ends[i + 1])
        fetch_ahead(address(slots) + 8 * (hashes[i - first] & mask))
    for i in range(first, last):
        k = slots[hashes[i - first] & mask]
        fetch_ahead(address(known.hashes) + 8 * k)
        fetch_ahead(address(known.ends) + 8 * k)


@compiled
def intern_texts(
    texts: CellTexts, missing: int, fixed: bool, slots: Ints, known: _KnownTexts, size: int, out: Ints
) -> int:
    """As `intern_numbers`, for texts."""
    mask = slots.size - 1
    hashes = np.empty(_CHUNK, np.int64)
    for i in range(out.size):
        if i % _CHUNK == 0:
            _hash_ahead(texts, i, min(i + _CHUNK, out.size), slots, known, hashes)
        if not texts.valid[i]:
            out[i] = missing
            continue
        hashed = hashes[i % _CHUNK]
        s = hashed & mask
        while slots[s] != 0:
            if known.hashes[slots[s] - 1] == hashed and _is_same(texts, i, known, slots[s] - 1):
                break
            s = (s + 1) & mask
        if slots[s] == 0:
            if fixed:
                out[i] = NO_GROUP
                continue
            start, end = texts.ends[i], known.ends[size]
            for j in range(texts.ends[i + 1] - start):
                known.letters[end + j] = texts.letters[start + j]
            known.ends[size + 1] = end + texts.ends[i + 1] - start
            known.hashes[size] = hashed
            size += 1
            slots[s] = size
        out[i] = slots[s] - 1
    return size


@compiled
def sort_codes(codes: Ints, size: int) -> Ints:
    """Return the positions of codes from 0 to size - 1 in the order of codes, by counting them."""
    starts = np.zeros(size + 1, np.int64)
    for code in codes:
        starts[code + 1] += 1
    for k in range(size):
        starts[k + 1] += starts[k]
    order = np.empty_like(codes)
    for i in range(codes.size):
        order[starts[codes[i]]] = i
        starts[codes[i]] += 1
    return order


@compiled
def mix_numbers(bits: Ints, valid: Flags, out: Ints) -> None:
    """Mix one more column of numbers into the hash of each row."""
    for i in range(out.size):
        out[i] = mix_bits(out[i] ^ (mix_bits(bits[i]) if valid[i] else 1))


@compiled
def mix_texts(texts: CellTexts, out: Ints) -> None:
    """Mix one more column of texts into the hash of each row."""
    for i in range(out.size):
        code = _hash(texts.letters, texts.ends[i], texts.ends[i + 1]) if texts.valid[i] else 1
        out[i] = mix_bits(out[i] ^ code)
