"""Ideal Gaussian and Laplace noise, correctly rounded.

A release adds the *real* Gaussian to exact integers and publishes the correctly rounded result,
    K_j = rint((S_j + std z_j) / 2^shift),    z_j = ±z(p_j),    Φ(-z(p)) = p,
where p_j is a uniform real of which only as many bits are drawn as the rounding needs [N1], [N2].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from ..errors import Floats, UsageError, positive, whole
from ..numerics.rounding import FLINT
from ..numerics.wide_integers import LOW_BITS, Wide
from .stream import BLOCK, Stream

SCALE_BITS = 20  # std / 2^shift lies in [2^20, 2^21)
_NO_FRACTION = np.empty(0)
_Part = tuple[Wide, int, Floats]  # (values, shift in [0, 48), what is to be added after the shift)


def shift_for(std: float) -> int:
    """The shift for which std / 2^shift lies in [2^20, 2^21)."""
    return math.frexp(positive("std", std))[1] - SCALE_BITS - 1


def _scale(std: float, shift: int) -> float:
    """std / 2^shift, exactly."""
    if shift_for(std) != shift:
        raise UsageError(f"shift must be {shift_for(std)} for this std, got {shift}. Use shift_for(std).")
    return math.ldexp(std, -shift)


def add_noise(sums: Wide, std: float, shift: int, stream: Stream, start: int = 0) -> Wide:
    """K_j = rint((S_j + std z_j) / 2^shift), z_j the standard normal of draw start + j. [N1]

    Guarantee: K is a function of the ideal real Gaussian release S + N(0, std^2 I) alone, so its privacy is
    that release's: mu = (l2 sensitivity of S) / std, nothing added for finite precision.

    `shift` must be `shift_for(std)`. Limbs of any shape, draws in C order; S_j and K_j must fit a `Wide`.
    """
    scale, shape, size = _scale(std, shift), sums.high.shape, sums.high.size
    stream.claim(whole("start", start, least=0, most=1 << 64), size)
    aligned = 0 <= shift < LOW_BITS
    flat = Wide(sums.high.reshape(-1), sums.low.reshape(-1))

    def part(begin: int, stop: int) -> _Part:
        block = Wide(flat.high[begin:stop], flat.low[begin:stop])
        return (block, shift, _NO_FRACTION) if aligned else _split(block, shift)

    def exact(j: int) -> tuple[int, Fraction]:
        return _floor_and_rest(flat[j], 1, shift)

    noisy = _add(size, part, exact, scale, stream, start)
    return Wide(noisy.high.reshape(shape), noisy.low.reshape(shape))


def add_noise_exact(values: Sequence[int | Fraction], std: float, shift: int, stream: Stream, start: int = 0) -> Wide:
    """The same for exact rationals: K_j = rint((values_j + std z_j) / 2^shift). [N1]

    Guarantee: as in `add_noise`; a friendly average P/Q keeps its exact value up to the one rounding.
    """
    pairs = [_floor_and_rest(value.numerator, value.denominator, shift) for value in values]

    def part(begin: int, stop: int) -> _Part:
        floors = Wide.from_ints(floor for floor, _ in pairs[begin:stop])
        # int / int is correctly rounded, however long the integers.
        rests = [rest.numerator / rest.denominator for _, rest in pairs[begin:stop]]
        return floors, 0, np.array(rests, np.float64)

    scale = _scale(std, shift)
    stream.claim(whole("start", start, least=0, most=1 << 64), len(pairs))
    return _add(len(pairs), part, pairs.__getitem__, scale, stream, start)


def _split(block: Wide, shift: int) -> _Part:
    floors, rests = block.split(shift)
    return floors, 0, rests


def _floor_and_rest(numerator: int, denominator: int, shift: int) -> tuple[int, Fraction]:
    """Floor and exact fractional part of numerator / (denominator 2^shift)."""
    divisor = denominator << max(shift, 0)
    floor, rest = divmod(numerator << max(-shift, 0), divisor)
    return floor, Fraction(rest, divisor)


def _add(
    size: int,
    part: Callable[[int, int], _Part],
    exact: Callable[[int], tuple[int, Fraction]],
    scale: float,
    stream: Stream,
    start: int,
) -> Wide:
    """rint(value + scale z), block by block; what doubles leave open is decided exactly [N3].

    The draws are those from `start` on, which were taken before.
    """
    high, low, undecided = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(min(size, BLOCK), np.int64)
    from .quantile_table import round_noisy, table  # compiles

    series = table()
    for begin, stop, words in stream.blocks(start, size):
        block, shift, fraction = part(begin, stop)
        out = high[begin:stop], low[begin:stop]
        count = round_noisy(words, series, scale, block.high, block.low, shift, fraction, *out, undecided)
        for i in undecided[:count].tolist():
            floor, rest = exact(begin + i)
            decided = Wide.from_ints([floor + _decide(rest, scale, stream, start + begin + i)])
            high[begin + i], low[begin + i] = decided.high[0], decided.low[0]
    return Wide(high, low)


def _decide(fraction: Fraction, scale: float, stream: Stream, index: int) -> int:
    """rint(fraction + scale z), drawing bits and raising the precision until it is certain [N2], [N3]."""
    from flint import arb, ctx, fmpq

    for sign, tail, length in stream.signed_draw(index):
        if tail:  # otherwise p may be zero, and z is unbounded
            with FLINT, ctx.workprec(length + 65):
                base = arb(fmpq(fraction.numerator, fraction.denominator)) + arb(0.5)
                factor = arb(2).sqrt() * arb(sign * scale)
                # z falls as p grows, so the two ends of p's interval enclose every rounding still possible.
                ends = [(arb(end) * arb(2) ** -length).erfcinv() for end in (tail, tail + 1)]
                nearest = [(base + factor * z).floor().unique_fmpz() for z in ends]
            if nearest[0] is not None and nearest[0] == nearest[1]:
                return int(nearest[0])
    raise AssertionError("a draw has bits without end")


def add_laplace(value: int, scale: float, shift: int, stream: Stream) -> int:
    """rint((value + scale x) / 2^shift), x an ideal Laplace variable [F6].

    x = ±(-ln p), p uniform on (0, 1), of which as many bits are drawn as make the rounding certain.
    """
    from flint import arb, ctx

    index = stream.next
    stream.claim(index, 1)
    for sign, tail, length in stream.signed_draw(index):
        if tail:  # otherwise p may be zero
            with FLINT, ctx.workprec(length + 192 + value.bit_length()):
                unit = arb(2) ** shift
                signed = arb(sign * scale)
                ends = [-(arb(end) / arb(2) ** length).log() for end in (tail, tail + 1)]
                nearest = [((arb(value) + signed * x) / unit + arb(0.5)).floor().unique_fmpz() for x in ends]
            if nearest[0] is not None and nearest[0] == nearest[1]:
                return int(nearest[0])
    raise AssertionError("a draw has bits without end")
