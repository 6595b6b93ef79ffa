"""The normal quantile by table: z(p) with Φ(-z) = p, from the 127 random bits after the sign.

p lies in [0, 1/2). Each octave of p is cut into 32 equal rows; in a row, z is its Taylor polynomial of
degree 9 about the row's middle, in x in [-1, 1). Its error is proved in [N4]. No logarithm, no division, only
IEEE sums and products: every machine computes the same doubles.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..errors import Floats
from ..numerics.rounding import FLINT
from ..numerics.wide_integers import Ints
from ..util.compile import compiled
from .stream import Words

OCTAVES = 24  # the table holds 2^-25 <= p < 1/2; rarer draws are redone in ball arithmetic
ROWS_PER_OCTAVE = 32
DEGREE = 9
MARGIN = 2.0**-44  # |computed z - true z| and all later rounding, over 1 + |z|; [N4] proves far less

_ONE, _DROP, _LAST = np.uint64(1), np.uint64(11), np.uint64(63)
_SIGN_TO_TWO = np.uint64(62)
_IN_TABLE = np.uint64(1 << (64 - OCTAVES))
_ROW_BITS, _ROW_MASK = np.uint64(5), np.uint64(ROWS_PER_OCTAVE - 1)
_OFFSET_BITS = np.uint64(58)
_OFFSET_MASK = np.uint64((1 << 58) - 1)
_HALF_ROW, _TO_UNIT = 1 << 57, 2.0**-57
_EXPONENT = 1023 + 52  # the exponent field of a 64-bit word with its top bit set, after dropping 11 bits
_LOW_BITS, _LOW_MASK = 48, (1 << 48) - 1


@lru_cache(maxsize=1)
def table() -> Floats:
    """Taylor coefficients, one line per row of p, built once a process (about 15 ms) [N4]."""
    rows = OCTAVES * ROWS_PER_OCTAVE
    series = np.zeros((rows, DEGREE + 1))
    for row in range(rows):
        series[row, :2] = _value_and_slope(row)
    for k in range(DEGREE - 1):  # z'' = z z'^2, coefficient by coefficient
        slope = [(i + 1) * series[:, i + 1] for i in range(k + 1)]
        squares = [sum(slope[i] * slope[m - i] for i in range(m + 1)) for m in range(k + 1)]
        product = sum(series[:, i] * squares[k - i] for i in range(k + 1))
        series[:, k + 2] = product / ((k + 1) * (k + 2))
    return series


def _value_and_slope(row: int) -> tuple[float, float]:
    """z and dz/dx at the middle of a row, as the doubles nearest to certified balls."""
    from flint import arb, ctx

    octave, step = divmod(row, ROWS_PER_OCTAVE)
    precision = 96
    while True:
        with FLINT, ctx.workprec(precision):
            half_width = arb(2) ** -(octave + 8)
            middle = half_width * (2 * ROWS_PER_OCTAVE + 2 * step + 1)
            z = arb(2).sqrt() * (2 * middle).erfcinv()
            slope = -half_width * (2 * arb.pi()).sqrt() * (z * z / 2).exp()
            if min(z.rel_accuracy_bits(), slope.rel_accuracy_bits()) > 64:
                return float(z.mid()), float(slope.mid())
        precision *= 2


@compiled
def _lookup(first: np.uint64, second: np.uint64, series: Floats) -> tuple[float, np.bool_]:
    """(|z| for the 127 bits after the sign, whether the table holds that p)."""
    head = (first << _ONE) | (second >> _LAST)
    # The exponent of a double counts the leading zeros; dropping 11 bits first makes the conversion exact.
    exponent = np.float64(np.int64((head | _IN_TABLE) >> _DROP)).view(np.int64) >> 52
    zeros = np.uint64(_EXPONENT - exponent)
    leading = (head << zeros) | ((second << _ONE >> _ONE) >> (_LAST - zeros))
    row = (zeros << _ROW_BITS) + ((leading >> _OFFSET_BITS) & _ROW_MASK)
    x = np.float64(np.int64(leading & _OFFSET_MASK) - _HALF_ROW) * _TO_UNIT
    x2 = x * x
    x4 = x2 * x2
    low = series[row, 0] + series[row, 1] * x
    mid = (series[row, 4] + series[row, 5] * x) + x2 * (series[row, 6] + series[row, 7] * x)
    high = series[row, 8] + series[row, 9] * x
    z = low + (x2 * (series[row, 2] + series[row, 3] * x) + x4 * (mid + x4 * high))
    return z, head >= _IN_TABLE


@compiled
def round_noisy(
    words: Words,
    series: Floats,
    scale: float,
    high: Ints,
    low: Ints,
    shift: int,
    fraction: Floats,
    out_high: Ints,
    out_low: Ints,
    undecided: Ints,
) -> int:
    """out = rint((high 2^48 + low) / 2^shift + fraction + scale z) where certain; counts the others [N3].

    0 <= shift < 48; an empty fraction stands for zeros.
    """
    count = 0
    mask, unit, carry = (1 << shift) - 1, 2.0**-shift, _LOW_BITS - shift
    for j in range(words.shape[0]):
        z, held = _lookup(words[j, 0], words[j, 1], series)
        sign = 1.0 - np.float64(np.int64(words[j, 0] >> _SIGN_TO_TWO) & 2)
        part = np.float64(low[j] & mask) * unit
        if fraction.size:
            part += fraction[j]
        v = part + (sign * scale) * z
        nearest = np.floor(v + 0.5)
        if (not held) | (abs(v - nearest) > 0.5 - scale * MARGIN * (1.0 + z)):
            undecided[count] = j
            count += 1
        total = (low[j] >> shift) + ((high[j] & mask) << carry) + np.int64(nearest)
        out_high[j] = (high[j] >> shift) + (total >> _LOW_BITS)
        out_low[j] = total & _LOW_MASK
    return count


@compiled
def normals(words: Words, series: Floats, out: Floats) -> None:
    """Standard normals as doubles; NaN where the table does not hold p."""
    for j in range(words.shape[0]):
        z, held = _lookup(words[j, 0], words[j, 1], series)
        sign = 1.0 - np.float64(np.int64(words[j, 0] >> _SIGN_TO_TWO) & 2)
        out[j] = sign * z if held else np.nan
