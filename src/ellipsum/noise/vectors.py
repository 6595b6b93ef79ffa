"""Noise vectors whose coordinates share a factor, correctly rounded.

    K_j = rint((S_j + scale f x_j) / 2^shift),    f shared by a run of coordinates, x_j = ±p or ±z(p) of draw j alone.

Doubles decide what is certain [N7]. A coordinate that they leave open draws more of its own bits; the factor is
enclosed more tightly, from its own draws, only when those outrun it. It is never drawn again, and never taken for
the double that stands for it [N6].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ball_arithmetic import FLINT
from ..compiled import compiled
from ..errors import Floats
from ..integers import LOW_BITS, Ints, Wide
from .entropy import BLOCK
from .gaussian import _floor_and_rest
from .quantile import _LOW_BITS, _LOW_MASK, round_noisy, table
from .shared import FIRST_BITS, Factor
from .stream import Stream

if TYPE_CHECKING:
    from flint import arb

_HEAD, _SIGN_TO_TWO = np.uint64(10), np.uint64(62)
_MAGNITUDE = np.uint64((1 << 63) - 1)
_NOTHING = np.empty(0)
_OUTRUN = 27  # a draw may know this many bits more than the factor before the factor is refined


@dataclass(frozen=True)
class Runs:
    """Runs of coordinates that lie one after the other and share a factor; repeated for every vector."""

    sizes: Ints
    scales: Floats
    """Noise scale of a run in the units of the sums."""
    shifts: Ints
    normal: bool
    """Coordinates are normals (True) or uniform on [-1, 1] (False)."""

    @property
    def width(self) -> int:
        return int(self.sizes.sum())


@compiled
def _round_uniform(
    words: Any,
    scale: Any,
    error: Any,
    high: Any,
    low: Any,
    shift: Any,
    fraction: Any,
    out_high: Any,
    out_low: Any,
    undecided: Any,
) -> Any:
    """out = rint((high 2^48 + low) / 2^shift + fraction + scale u) where certain; counts the others [N7].

    `scale` is known up to `error`, and each u is uniform on [-1, 1].
    """
    count = 0
    mask, unit, carry = (1 << shift) - 1, 2.0**-shift, _LOW_BITS - shift
    room = 0.5 - (2.0 * error + 2.0**-50 * scale + 2.0**-47)
    for j in range(words.shape[0]):
        p = np.float64(np.int64((words[j, 0] & _MAGNITUDE) >> _HEAD)) * 2.0**-53
        sign = 1.0 - np.float64(np.int64(words[j, 0] >> _SIGN_TO_TWO) & 2)
        part = np.float64(low[j] & mask) * unit
        if fraction.size:
            part += fraction[j]
        v = part + (sign * scale) * p
        nearest = np.floor(v + 0.5)
        if not abs(v - nearest) <= room:
            undecided[count] = j
            count += 1
        total = (low[j] >> shift) + ((high[j] & mask) << carry) + np.int64(nearest)
        out_high[j] = (high[j] >> shift) + (total >> _LOW_BITS)
        out_low[j] = total & _LOW_MASK
    return count


@compiled
def _round_runs(
    words: Any,
    series: Any,
    begin: Any,
    ends: Any,
    scales: Any,
    shifts: Any,
    factors: Any,
    errors: Any,
    high: Any,
    low: Any,
    fraction: Any,
    out_high: Any,
    out_low: Any,
    undecided: Any,
) -> Any:
    """Round one stretch of coordinates, `begin` its first in all vectors; an empty series stands for uniforms."""
    width, runs, size = ends[-1], ends.size, words.shape[0]
    vector, column = begin // width, begin % width
    run, done, count = 0, 0, 0
    while column >= ends[run]:
        run += 1
    while done < size:
        stop = min(done + ends[run] - column, size)
        place = vector * runs + run
        scale, error, shift = scales[run] * factors[place], scales[run] * errors[place], shifts[run]
        rests = fraction[done:stop] if fraction.size else fraction
        here = undecided[count:]
        if series.size == 0:
            opened = _round_uniform(
                words[done:stop], scale, error, high[done:stop], low[done:stop], shift, rests,
                out_high[done:stop], out_low[done:stop], here,
            )  # fmt: skip
        elif scale >= 1.0 and error <= scale * 2.0**-45:
            opened = round_noisy(
                words[done:stop], series, scale, high[done:stop], low[done:stop], shift, rests,
                out_high[done:stop], out_low[done:stop], here,
            )  # fmt: skip
        else:
            opened = stop - done
            for i in range(opened):
                here[i] = i
        for i in range(opened):
            here[i] += done
        count += opened
        column += stop - done
        done = stop
        if column == ends[run]:
            run += 1
            if run == runs:
                run, column, vector = 0, 0, vector + 1
    return count


def add_vectors(
    sums: Wide,
    runs: Runs,
    factors: Floats,
    errors: Floats,
    exact: Callable[[int], Factor],
    stream: Stream,
    start: int,
) -> Wide:
    """K for sums of any number of vectors, coordinate j (in C order) from draw start + j [N6], [N7].

    `factors` holds a double for every run of every vector, within `errors` of the factor that `exact(run)` encloses.
    """
    flat = Wide(sums.high.reshape(-1), sums.low.reshape(-1))
    size, ends = len(flat), np.cumsum(runs.sizes)
    scales = np.ldexp(runs.scales, -runs.shifts)  # exact: powers of two
    series = table() if runs.normal else np.empty((0, 0))
    out = Wide(np.empty(size, np.int64), np.empty(size, np.int64))
    words = np.empty((min(size, BLOCK), 2), np.uint64)
    undecided = np.empty(len(words), np.int64)
    outside = (runs.shifts < 0) | (runs.shifts >= LOW_BITS)
    aligned = not outside.any()
    inside = runs.shifts if aligned else np.where(outside, 0, runs.shifts)
    known: dict[int, Factor] = {}
    for begin in range(0, size, BLOCK):
        stop = min(begin + BLOCK, size)
        bits = words[: stop - begin]
        stream.fill(start + begin, bits)
        block, fraction = Wide(flat.high[begin:stop], flat.low[begin:stop]), _NOTHING
        if not aligned:
            block, fraction = _aligned(block, runs, outside, ends, begin)
        high, low = out.high[begin:stop], out.low[begin:stop]
        count = _round_runs(
            bits, series, begin, ends, scales, inside, factors, errors, block.high, block.low, fraction,
            high, low, undecided,
        )  # fmt: skip
        for i in undecided[:count].tolist():
            vector, column = divmod(begin + i, int(ends[-1]))
            run = int(np.searchsorted(ends, column, side="right"))
            place = vector * ends.size + run
            factor = known.setdefault(place, exact(place))
            floor, rest = _floor_and_rest(flat[begin + i], 1, int(runs.shifts[run]))
            nearest = _decide(rest, float(scales[run]), factor, runs.normal, stream, start + begin + i)
            decided = Wide.from_ints([floor + nearest])
            high[i], low[i] = decided.high[0], decided.low[0]
    return Wide(out.high.reshape(sums.high.shape), out.low.reshape(sums.high.shape))


def _aligned(block: Wide, runs: Runs, outside: Any, ends: Ints, begin: int) -> tuple[Wide, Floats]:
    """(sums, fractions): where a shift is outside [0, 48) the sums are shifted here and the rest kept beside them."""
    high, low, fraction = block.high.copy(), block.low.copy(), np.zeros(len(block))
    columns = (begin + np.arange(len(block))) % ends[-1]
    shifts = runs.shifts[np.searchsorted(ends, columns, side="right")]
    for shift in np.unique(runs.shifts[outside]).tolist():
        at = np.flatnonzero(shifts == shift)
        floors, fraction[at] = Wide(block.high[at], block.low[at]).split(shift)
        high[at], low[at] = floors.high, floors.low
    return Wide(high, low), fraction


def _decide(rest: Fraction, scale: float, factor: Factor, normal: bool, stream: Stream, index: int) -> int:
    """rint(rest + scale f x), drawing bits of x, then of f, until the rounding is certain [N6]."""
    from flint import arb, ctx, fmpq

    first, second = map(int, stream.words(index, 1)[0])
    tail, length = ((first & ((1 << 63) - 1)) << 64) | second, 127
    further = stream.more(index)
    bits = FIRST_BITS
    shared = factor.enclose(bits)
    while True:
        if tail or not normal:  # else z is unbounded
            with FLINT, ctx.workprec(max(bits, length) + 128):
                base = arb(fmpq(rest.numerator, rest.denominator)) + arb(0.5)
                scaled = shared * arb(-scale if first >> 63 else scale)
                ends = [_coordinate(end, length, normal) for end in (tail, tail + 1)]
                # x is monotone in p: for every factor in the ball the two ends enclose every rounding still possible
                nearest = [(base + scaled * x).floor().unique_fmpz() for x in ends]
            if nearest[0] is not None and nearest[0] == nearest[1]:
                return int(nearest[0])
        if length <= bits + _OUTRUN:
            tail, length = (tail << 64) | next(further), length + 64
        else:
            bits += 64
            shared = factor.enclose(bits)


def _coordinate(end: int, length: int, normal: bool) -> arb:
    """|x| at one end of the interval that the bits read so far leave for p."""
    from flint import arb

    p = arb(end) * arb(2) ** -length
    return arb(2).sqrt() * p.erfcinv() if normal else p
