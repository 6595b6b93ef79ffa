"""The factor that the coordinates of a noise vector share: a Gamma variable, or the root of a chi-square one.

A Gamma(n) variable is minus the logarithm of a product of n uniforms, each with bits of its own, fixed by its position.
Doubles give the factor with a proved error [N7]; balls enclose it to any precision, from the same bits [N6].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..errors import Floats
from ..numerics.rounding import FLINT
from ..numerics.wide_integers import Ints
from ..util.compile import compiled, inner
from .stream import BLOCK, Stream, Words

if TYPE_CHECKING:
    from flint import arb

FIRST_BITS = 100  # relative bits of the first enclosure
_UNIT = 2.0**-52
_HEAD, _LEFT, _DROP = np.uint64(11), np.uint64(42), np.uint64(22)
_LOW_MASK = np.uint64((1 << 11) - 1)
_RARE = 1 << 13  # a uniform below 2^-40 is left to balls
_SMALL, _UP, _UP_BITS = 2.0**-800, 2.0**512, 512
_LN2 = math.log(2.0)
_SERIES = tuple(1.0 / (2 * i + 1) for i in range(11))  # of artanh(s) / s in s^2
_HALF_ROOT_2 = math.sqrt(2.0) / 2
_AT_ONCE = 16  # uniforms multiplied before the product is cut


@inner
def _minus_log(x: float, exponent: int) -> float:
    """-(ln x + exponent ln 2) for a normal double x > 0, by sums, products and one division."""
    m, power = math.frexp(x)
    power += exponent
    if m <= _HALF_ROOT_2:
        m *= 2.0
        power -= 1
    s = (m - 1.0) / (m + 1.0)
    square = s * s
    total = 0.0
    for i in range(len(_SERIES) - 1, -1, -1):
        total = total * square + _SERIES[i]
    return -power * _LN2 - 2.0 * (s * total)


@compiled
def _exponential_sums(words: Words, counts: Ints, state: Floats, sums: Floats, errors: Floats) -> None:
    """sums[i] = -ln of the product of the next counts[i] uniforms, errors[i] a bound on its error [N7].

    `state` carries (product, exponent, uniforms left, place, whether all were common) between calls; zeros at first.
    """
    product, exponent = state[0], int(state[1])
    left, place = int(state[2]), int(state[3])
    common = state[4]
    if left == 0:
        product, left, common = 1.0, counts[0], 1.0
    for j in range(words.shape[0]):
        head = np.int64(words[j, 0] >> _HEAD)
        low = np.int64(((words[j, 0] & _LOW_MASK) << _LEFT) | (words[j, 1] >> _DROP))
        if head < _RARE:
            common = 0.0
            head = np.int64(_RARE)
        product *= np.float64(head) * 2.0**-53 + np.float64(low) * 2.0**-106
        if product < _SMALL:
            product *= _UP
            exponent -= _UP_BITS
        left -= 1
        if left == 0:
            value = _minus_log(product, exponent)
            sums[place] = value
            errors[place] = _UNIT * (1.01 * counts[place] + 2.0 + 2.0 * value) if common > 0 else np.inf
            place += 1
            left = counts[place] if place < counts.size else -1
            product, exponent, common = 1.0, 0, 1.0
    state[0], state[1] = product, exponent
    state[2], state[3] = left, place
    state[4] = common


@compiled
def _roots(sums: Floats, errors: Floats, normals: Floats, values: Floats, bounds: Floats) -> None:
    """sqrt(2 sum + z^2), z among `normals` where there are any; one that is not known leaves its root open [N7]."""
    for i in range(sums.size):
        square, bound = 2.0 * sums[i], 2.0 * errors[i]
        if normals.size:
            z = normals[i]
            if np.isnan(z):
                z, bound = 1.0, np.inf
            square += z * z
            bound += _UNIT * (2.0 + 7.0 * z * z)
        value = np.sqrt(max(square, 0.0))
        values[i] = value
        # |sqrt(x) - sqrt(y)| <= |x - y| / sqrt(y), and two more roundings
        bounds[i] = bound / value + 2.0 * _UNIT * value if value > 0.0 else np.inf


def exponential_sums(stream: Stream, start: int, counts: Ints, total: int | None = None) -> tuple[Floats, Floats]:
    """(sums, bounds on their errors): sum i takes the next counts[i] draws of the stream, from start on [N7].

    total: of the counts, where it is known.
    """
    sums, errors, state = np.empty(counts.size), np.empty(counts.size), np.zeros(5)
    total = int(counts.sum()) if total is None else total
    for _, _, words in stream.blocks(start, total):
        _exponential_sums(words, counts, state, sums, errors)
    return sums, errors


def roots(stream: Stream, start: int, sums: Floats, errors: Floats, normals: bool) -> tuple[Floats, Floats]:
    """sqrt(2 sum), or sqrt(2 sum + z^2) with one more normal each from `start` on, and bounds on the errors [N7]."""
    from .quantile_table import normals as fill_normals
    from .quantile_table import table

    z = np.empty(sums.size if normals else 0)
    for begin in range(0, z.size, BLOCK):
        part = z[begin : begin + BLOCK]
        fill_normals(stream.words(start + begin, part.size), table(), part)
    values, bounds = np.empty(sums.size), np.empty(sums.size)
    _roots(sums, errors, z, values, bounds)
    return values, bounds


@dataclass(frozen=True)
class Factor:
    """One shared factor: minus the log of the product of `uniforms` draws from `start` on; for `root`, the root of
    twice that, plus the square of the normal at draw `normal` where there is one [N6]."""

    stream: Stream
    start: int
    uniforms: int
    root: bool = False
    normal: int | None = None

    def enclose(self, bits: int) -> arb:
        """A ball with the factor in it, from at least `bits` significant bits of every draw."""
        from flint import arb, ctx

        mantissa, exponent, width = self._product(bits)
        with FLINT, ctx.workprec(bits + 64):
            total = arb(0, width) - arb(width) - (arb(mantissa).log() + exponent * arb(2).log())
            if not self.root:
                return total
            if self.normal is not None:
                total += self._half_square(self.normal, bits)
            return (2 * total.nonnegative_part()).sqrt()

    def _product(self, bits: int) -> tuple[int, int, arb]:
        """(m, e, w): the logarithm of the product of the uniforms lies between ln(m 2^e) and that plus 2 w."""
        from flint import arb

        mantissa, exponent = 1, 0
        for begin in range(0, self.uniforms, BLOCK):
            size = min(BLOCK, self.uniforms - begin)
            values, length = self._values(self.start + begin, size, bits)
            exponent -= length
            for j in range(0, size, _AT_ONCE):
                mantissa *= math.prod(values[j : j + _AT_ONCE])
                surplus = max(mantissa.bit_length() - bits - 64, 0)
                mantissa >>= surplus
                exponent += surplus
        # each draw adds at most ln(1 + 2^-bits), each cut at most 2^-(bits + 63)
        return mantissa, exponent, arb(self.uniforms) * arb(2) ** -bits

    def _values(self, start: int, size: int, bits: int) -> tuple[list[int], int]:
        """(the first digits of some draws as integers, the number of digits in all), `bits` of each significant."""
        words = self.stream.words(start, size)
        values, length = [(first << 64) | second for first, second in words.tolist()], 128 * size
        short = range(size) if bits > 128 else np.flatnonzero(words[:, 0] < 1 << max(bits - 64, 0)).tolist()
        for i in short:
            values[i], more = self._extend(values[i], start + i, bits)
            length += more
        return values, length

    def _extend(self, value: int, index: int, bits: int) -> tuple[int, int]:
        """(first digits of a draw, how many more than the first were read): until `bits` are significant."""
        length, further = 0, self.stream.more(index)
        while value >> bits == 0:
            value, length = (value << 64) | next(further), length + 64
        return value, length

    def _half_square(self, index: int, bits: int) -> arb:
        """z^2/2 of the normal at this draw, its p as in `gaussian`."""
        from flint import arb

        first, second = map(int, self.stream.words(index, 1)[0])
        tail, more = self._extend(((first & ((1 << 63) - 1)) << 64) | second, index, bits)
        ends = [(arb(end) * arb(2) ** -(127 + more)).erfcinv() ** 2 for end in (tail, tail + 1)]
        return ends[0].union(ends[1])
