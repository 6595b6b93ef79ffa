"""Ideal Laplace noise, correctly rounded: the gate of a friendly mean may use it."""

from __future__ import annotations

from ..numerics.ball_arithmetic import FLINT
from .stream import Stream


def add_laplace(value: int, scale: float, shift: int, stream: Stream) -> int:
    """rint((value + scale x) / 2^shift), x an ideal Laplace variable [F6].

    x = ±(-ln p), p uniform on (0, 1), of which as many bits are drawn as make the rounding certain.
    """
    from flint import arb, ctx

    index = stream.next
    stream.claim(index, 1)
    first, second = map(int, stream.words(index, 1)[0])
    tail, bits = ((first & ((1 << 63) - 1)) << 64) | second, 127
    further = stream.more(index)
    while True:
        if tail:  # else p may be as small as zero
            with FLINT, ctx.workprec(bits + 192 + value.bit_length()):
                unit = arb(2) ** shift
                signed = arb(-scale if first >> 63 else scale)
                ends = [-(arb(end) / arb(2) ** bits).log() for end in (tail, tail + 1)]
                nearest = [((arb(value) + signed * x) / unit + arb(0.5)).floor().unique_fmpz() for x in ends]
            if nearest[0] is not None and nearest[0] == nearest[1]:
                return int(nearest[0])
        tail, bits = (tail << 64) | next(further), bits + 64
