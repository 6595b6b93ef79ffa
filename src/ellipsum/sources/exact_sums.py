"""Exact sums of doubles, column by column, for one person at a time. [T7]

A double is an integer of 53 bits times a power of two, so a sum of doubles is an integer times 2^-1074. It is kept in
limbs of 32 bits, each in a 64-bit integer, which allows 2^31 additions. Only the final rounding is inexact.
This module compiles, so it is imported only when people have several rows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats
from ..numerics.wide_integers import Ints
from ..util.compile import compiled

LIMBS = 72  # 2 below the least bit (always zero), 66 for doubles, 4 for carries and sign
_SPARE = 2
_MASK = (1 << 32) - 1
_LEAST = -1074
_ROOM = (1 << 30) - 1  # additions between carries, less one
_LARGEST = float(np.finfo(np.float64).max)


class OpenPerson(NamedTuple):
    """The person whose rows are being added. rows: the number of rows so far, -1 before the first person.

    counts: the number of values of each column. spans: the first and last limb in use of each column.
    """

    counts: Ints
    limbs: Ints
    spans: Ints
    rows: Ints

    @staticmethod
    def new(width: int) -> OpenPerson:
        spans = np.tile(np.array([LIMBS, 0], np.int64), (width, 1))
        return OpenPerson(
            np.zeros(width, np.int64), np.zeros((width, LIMBS), np.int64), spans, np.array([-1], np.int64)
        )


@compiled
def _add(bits: int, limbs: Ints, span: Ints) -> None:
    """Add the finite double of these bits to the limbs; span: the first and last limb in use."""
    exponent = (bits >> 52) & 0x7FF
    mantissa = bits & ((1 << 52) - 1)
    place = 0
    if exponent > 0:
        mantissa |= 1 << 52
        place = exponent - 1
    k, shift = _SPARE + (place >> 5), place & 31
    low = (mantissa & _MASK) << shift
    high = ((mantissa >> 32) << shift) + (low >> 32)
    sign = -1 if bits < 0 else 1
    limbs[k] += sign * (low & _MASK)
    limbs[k + 1] += sign * (high & _MASK)
    limbs[k + 2] += sign * (high >> 32)
    span[0] = min(span[0], k)
    span[1] = max(span[1], k + 2)


@compiled
def _carry(limbs: Ints, span: Ints) -> None:
    """Carry between limbs until all but the last are in [0, 2^32). The last one has the sign."""
    for q in range(span[0], span[1]):
        limbs[q + 1] += limbs[q] >> 32
        limbs[q] &= _MASK
    while span[1] < LIMBS - 1 and not -_MASK <= limbs[span[1]] <= _MASK:
        limbs[span[1] + 1] += limbs[span[1]] >> 32
        limbs[span[1]] &= _MASK
        span[1] += 1


@compiled
def _round(limbs: Ints, span: Ints) -> tuple[int, int]:
    """(m, e): m 2^e is the exact sum rounded to 53 bits, ties to even."""
    _carry(limbs, span)
    sign = 1
    if limbs[span[1]] < 0:
        sign = -1
        for q in range(span[0], span[1] + 1):
            limbs[q] = -limbs[q]
        _carry(limbs, span)
    t = span[1]
    while t >= span[0] and limbs[t] == 0:
        t -= 1
    if t < span[0]:
        return 0, 0
    length = 0
    while limbs[t] >> length:
        length += 1
    drop = length - 21  # bits of the second limb beyond the 53 bits of the result
    if drop >= 0:
        m = (limbs[t] << (32 - drop)) | (limbs[t - 1] >> drop)
        rest_bits = drop + 32
        rest = ((limbs[t - 1] & ((1 << drop) - 1)) << 32) | limbs[t - 2]
    else:
        rest_bits = 32 + drop
        m = (limbs[t] << (32 - drop)) | (limbs[t - 1] << -drop) | (limbs[t - 2] >> rest_bits)
        rest = limbs[t - 2] & ((1 << rest_bits) - 1)
    more = False
    for q in range(span[0], t - 2):
        more |= limbs[q] != 0
    half = 1 << (rest_bits - 1)
    if rest > half or (rest == half and (more or m & 1 == 1)):
        m += 1
    return sign * m, 32 * (t - 2 - _SPARE) + rest_bits + _LEAST


@compiled
def finish(person: OpenPerson, mean: bool, out: Floats) -> None:
    """Write the row of the open person, and clear the sums for the next one. A column without a value is NaN."""
    counts, limbs, spans, _ = person
    for j in range(counts.size):
        if counts[j] == 0:
            out[j] = np.nan
            continue
        m, e = _round(limbs[j], spans[j])
        value = math.ldexp(float(m) / counts[j] if mean else float(m), e)
        out[j] = min(max(value, -_LARGEST), _LARGEST)
        for q in range(spans[j, 0], spans[j, 1] + 1):
            limbs[j, q] = 0
        counts[j] = 0
        spans[j, 0], spans[j, 1] = LIMBS, 0


@compiled
def fold(bits: Ints, first: NDArray[np.bool_], most: int, mean: bool, person: OpenPerson, out: Floats) -> int:
    """Add rows that are sorted by person. Returns the number of people who are now complete, whose rows are in `out`.

    first[i]: row i is the first of a person. most: the number of rows of a person that count, 0 for all.
    """
    counts, limbs, spans, taken = person
    done = 0
    for i in range(bits.shape[0]):
        if first[i]:
            if taken[0] >= 0:
                finish(person, mean, out[done])
                done += 1
            taken[0] = 0
        if most > 0 and taken[0] >= most:
            continue
        taken[0] += 1
        for j in range(bits.shape[1]):
            b = bits[i, j]
            if (b >> 52) & 0x7FF != 0x7FF:  # NaN and infinities are missing values
                _add(b, limbs[j], spans[j])
                counts[j] += 1
                if counts[j] & _ROOM == 0:
                    _carry(limbs[j], spans[j])
    return done


@compiled
def canonical_bits(rows: Floats, bits: Ints) -> None:
    """Give equal numbers, and all missing values, one bit pattern. Infinities count as missing."""
    for i in range(bits.shape[0]):
        for j in range(bits.shape[1]):
            b = bits[i, j]
            if (b >> 52) & 0x7FF == 0x7FF:
                rows[i, j] = np.nan
                bits[i, j] = 0x7FF8000000000000
            elif rows[i, j] == 0:
                bits[i, j] = 0


@compiled
def content_hashes(bits: Ints) -> Ints:
    """A fixed hash of the bits of each row. A cap keeps the rows with the smallest hashes."""
    out = np.empty(bits.shape[0], np.int64)
    for i in range(bits.shape[0]):
        h = np.uint64(0x243F6A8885A308D3)
        for j in range(bits.shape[1]):
            h = (h ^ np.uint64(bits[i, j])) * np.uint64(0x9E3779B97F4A7C15)
            h ^= h >> np.uint64(29)
        h = (h ^ (h >> np.uint64(32))) * np.uint64(0xBF58476D1CE4E5B9)
        out[i] = np.int64(h ^ (h >> np.uint64(31)))
    return out
