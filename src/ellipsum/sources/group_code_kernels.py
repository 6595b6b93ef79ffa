"""Hash tables of numbers and of texts. Imported only where rows have groups: it compiles.

A slot holds the number of an entry plus one, or zero; entries that fall on a taken slot go to the next free one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.codegen import address, fetch_ahead
from ..util.compile import compiled, inner

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
