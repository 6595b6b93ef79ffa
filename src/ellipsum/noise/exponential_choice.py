"""The exponential mechanism over a list of bins, sampled exactly."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

from ..numerics.rounding import FLINT
from .stream import Stream

_FIRST_BITS = 128


def choose(widths: Sequence[float], costs: Sequence[int], rate: Fraction, stream: Stream) -> int:
    """Bin i with probability exactly proportional to widths[i] exp(-rate costs[i]). [Q21]

    A uniform number is drawn bit by bit until it is certain which bin it falls in.
    """
    from flint import arb, ctx, fmpq

    index = stream.next
    stream.claim(index, 1)
    first, second = map(int, stream.words(index, 1)[0])
    drawn, bits = (first << 64) | second, _FIRST_BITS
    further = stream.more(index)
    while True:
        with FLINT, ctx.workprec(bits + 64):
            step = arb(fmpq(-rate.numerator, rate.denominator))
            ends = list(accumulate(arb(w) * (step * c).exp() for w, c in zip(widths, costs, strict=True)))
            low, high = (arb(end) / arb(2) ** bits * ends[-1] for end in (drawn, drawn + 1))
            chosen = _first_above(ends, low)
            # The ends are those of an interval that holds the number, whatever its further bits.
            after_last = chosen == 0 or ends[chosen - 1] <= low
            if after_last and (chosen == len(ends) - 1 or high <= ends[chosen]):
                return chosen
        drawn, bits = (drawn << 64) | next(further), bits + 64


def _first_above(ends: Sequence[object], low: object) -> int:
    """The first end whose middle is above another's; bisected."""
    target = low.mid()  # type: ignore[attr-defined]
    first, last = 0, len(ends) - 1
    while first < last:
        middle = (first + last) // 2
        if ends[middle].mid() > target:  # type: ignore[attr-defined]
            last = middle
        else:
            first = middle + 1
    return first
