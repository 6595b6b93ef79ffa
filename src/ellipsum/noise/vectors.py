"""Noise vectors whose coordinates share a factor: K-norm (L2) noise [B1] and K-norm (L-infinity) noise [K1] [N6].

K-norm (L2) noise has density proportional to exp(-|eta| / scale): eta = scale |z'| z with standard normal z in d
dimensions and z' in d + 1. |z'|^2 is minus twice the log of a product of uniforms, one for two degrees of freedom, and
one squared normal if d + 1 is odd.

In blocks, block g of k columns draws r ~ Gamma(k + 1) and, for each column, u uniform on [-1, 1]; its noise is
scale_g r u. One block of one column is Laplace noise.

    K_j = rint((S_j + scale f x_j) / 2^shift),    f shared by a run of coordinates, x_j = ±p or ±z(p) of draw j alone.

Doubles decide what is certain [N7]. A coordinate that they do not decide draws more of its own bits; the factor is
enclosed more tightly, from its own draws, only when those outrun it. It is never drawn again, and never taken for
the double that stands for it [N6].
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats, UsageError, whole
from ..numerics.rounding import FLINT
from ..numerics.wide_integers import Ints, Wide
from ..util.compile import compiled, inner
from .gaussian import _floor_and_rest
from .quantile_table import _LOW_BITS, _LOW_MASK, round_noisy, table
from .shared_factor import FIRST_BITS, Factor, exponential_sums, roots
from .stream import BLOCK, Stream, Words
from .vector_runs import COLUMNS, Runs, ball_draws, ball_runs

if TYPE_CHECKING:
    from flint import arb

_HEAD, _SIGN_TO_TWO = np.uint64(10), np.uint64(62)
_MAGNITUDE = np.uint64((1 << 63) - 1)
_NOTHING = np.empty(0)
_Place = int | np.int64
_Sums = tuple[Ints, Ints, Floats]  # high, low, fraction
_Rounded = tuple[Ints, Ints, Ints]  # high, low, undecided
_OUTRUN = 27  # a draw may know this many bits more than the factor before the factor is refined


def add_ball_noise(sums: Wide, scale: float, stream: Stream, start: int = 0) -> Wide:
    """K_j = rint((S_j + scale |z'| z_j) / 2^shift), shift = ball_shift(scale, d). [B1]

    The last axis of `sums` holds the d coordinates; every other index is a vector with noise of its own.

    Guarantee: K is a function of the ideal release S + eta alone, so with l2 sensitivity D of S its privacy is the
    exact curve of D / scale in d dimensions, nothing added for finite precision [N6].

    Draws: the factors' uniforms vector by vector, their normals if d is even, then one per coordinate in C order.
    """
    return add_sphere_noise(sums, ball_runs(scale, sums.high.shape[-1]), stream, start)


def add_sphere_noise(sums: Wide, runs: Runs, stream: Stream, start: int = 0) -> Wide:
    """As `add_ball_noise`, for a run that already exists."""
    d = runs.width
    if d != sums.high.shape[-1]:
        raise UsageError(f"The noise has {d} coordinates, but the sums have {sums.high.shape[-1]}. Create a new plan.")
    vectors, pairs, odd = sums.high.size // d, (d + 1) // 2, d % 2 == 0
    stream.claim(whole("start", start, least=0), ball_draws(d, vectors))
    if not vectors:
        return sums
    normals = start + vectors * pairs

    def exact(place: int) -> Factor:
        first, normal = start + place * pairs, normals + place if odd else None
        return Factor(stream, first, pairs, root=True, normal=normal)

    uniforms = np.full(vectors, pairs, np.int64)
    halves, bounds = exponential_sums(stream, start, uniforms, vectors * pairs)
    factors, errors = roots(stream, normals, halves, bounds, odd)
    return add_vectors(sums, runs, factors, errors, exact, stream, normals + vectors * odd)


def add_block_noise(sums: Wide, runs: Runs, stream: Stream, start: int = 0) -> Wide:
    """K_j = rint((S_j + scale_g r_g u_j) / 2^shift_g), for runs made by `box_runs`. [K1]

    The last axis of `sums` holds the columns block by block; every other index is a vector with noise of its own.

    Guarantee: K is a function of the ideal release S + eta alone, eta of density proportional to
    exp(-sum_g max_{j in g} |eta_j| / scale_g); so where column j of S moves by at most D_j between neighbors and
    scale_g >= D_j / epsilon_g, it is (sum epsilon_g)-private and pure, nothing added for finite precision [N6].

    Draws: the radii's k_g + 1 uniforms block by block, vector by vector, then one per coordinate in C order.
    """
    if runs.width != sums.high.shape[-1]:
        raise UsageError(COLUMNS)
    vectors, radii = sums.high.size // runs.width, runs.width + runs.sizes.size
    draws = vectors * (radii + runs.width)
    stream.claim(whole("start", start, least=0), draws)
    if not vectors:
        return sums
    uniforms = np.tile(runs.sizes + 1, vectors)  # Number of uniforms whose product gives the radius of a block [K1].

    def exact(place: int) -> Factor:
        return Factor(stream, start + int(uniforms[:place].sum()), int(uniforms[place]))

    factors, errors = exponential_sums(stream, start, uniforms, vectors * radii)
    return add_vectors(sums, runs, factors, errors, exact, stream, start + vectors * radii)


@inner
def _round_uniform(
    words: Words,
    begin: _Place,
    stop: _Place,
    scale: float,
    error: float,
    shift: int,
    block: _Sums,
    out: _Rounded,
    count: _Place,
) -> _Place:
    """out = rint((high 2^48 + low) / 2^shift + fraction + scale u) where certain, for the places from begin to stop.

    `scale` is known up to `error`, and each u is uniform on [-1, 1]. The other places are entered in `undecided` from
    `count` on; returns how many it then has [N7].
    """
    (high, low, fraction), (out_high, out_low, undecided) = block, out
    mask, unit, carry = (1 << shift) - 1, 2.0**-shift, _LOW_BITS - shift
    margin = 0.5 - (2.0 * error + 2.0**-50 * scale + 2.0**-47)
    for j in range(begin, stop):
        p = np.float64(np.int64((words[j, 0] & _MAGNITUDE) >> _HEAD)) * 2.0**-53
        sign = 1.0 - np.float64(np.int64(words[j, 0] >> _SIGN_TO_TWO) & 2)
        part = np.float64(low[j] & mask) * unit
        if fraction.size:
            part += fraction[j]
        v = part + (sign * scale) * p
        nearest = np.floor(v + 0.5)
        if not abs(v - nearest) <= margin:
            undecided[count] = j
            count += 1
        total = (low[j] >> shift) + ((high[j] & mask) << carry) + np.int64(nearest)
        out_high[j] = (high[j] >> shift) + (total >> _LOW_BITS)
        out_low[j] = total & _LOW_MASK
    return count


@compiled
def _round_runs(
    words: Words,
    series: Floats | None,
    begin: int,
    ends: Ints,
    scales: Floats,
    shifts: Ints,
    factors: Floats,
    errors: Floats,
    block: _Sums,
    out: _Rounded,
) -> _Place:
    """Round one stretch of coordinates, `begin` its first in all vectors; no series stands for uniforms.

    block: (high, low, fraction) of the sums. out: (high, low, undecided). numba compiles for uniforms what they need,
    and nothing of the normals.
    """
    (high, low, fraction), (out_high, out_low, undecided) = block, out
    width, runs, size = ends[-1], ends.size, words.shape[0]
    vector, column = begin // width, begin % width
    run = 0
    done: _Place = np.int64(0)  # as a literal, this and the next would be compiled for twice
    count: _Place = np.int64(0)
    while column >= ends[run]:
        run += 1
    while done < size:
        stop = min(done + ends[run] - column, size)
        place = vector * runs + run
        scale, error, shift = scales[run] * factors[place], scales[run] * errors[place], shifts[run]
        if series is None:
            count = _round_uniform(words, done, stop, scale, error, shift, block, out, count)
        elif scale >= 1.0 and error <= scale * 2.0**-45:
            rests = fraction[done:stop] if fraction.size else fraction
            here = undecided[count:]
            opened = round_noisy(
                words[done:stop], series, scale, high[done:stop], low[done:stop], shift, rests,
                out_high[done:stop], out_low[done:stop], here,
            )  # fmt: skip
            for i in range(opened):
                here[i] += done
            count += opened
        else:
            for i in range(done, stop):
                undecided[count] = i
                count += 1
        column += stop - done
        done = stop
        if column == ends[run]:
            run += 1
            if run == runs:
                run, column, vector = 0, 0, vector + 1
    return count


def add_vectors(
    sums: Wide, runs: Runs, factors: Floats, errors: Floats, exact: Callable[[int], Factor], stream: Stream, start: int
) -> Wide:
    """K for sums of any number of vectors, coordinate j (in C order) from draw start + j [N6], [N7].

    `factors` holds a double for every run of every vector, within `errors` of the factor that `exact(run)` encloses.
    """
    shape, size = sums.high.shape, sums.high.size
    flat = sums if len(shape) == 1 else Wide(sums.high.reshape(-1), sums.low.reshape(-1))
    high, low = np.empty(size, np.int64), np.empty(size, np.int64)
    undecided = np.empty(min(size, BLOCK), np.int64)
    series, ends, served = table() if runs.normal else None, runs.ends, runs.served
    known_factors: dict[int, Factor] = {}
    for begin, stop, words in stream.blocks(start, size):
        block, fraction = flat if stop - begin == size else Wide(flat.high[begin:stop], flat.low[begin:stop]), _NOTHING
        if served is None:
            block, fraction = _align(block, runs, runs.outside, ends, begin)
        out = high[begin:stop], low[begin:stop], undecided
        shifts = _inside(runs) if served is None else served
        parts = block.high, block.low, fraction
        count = _round_runs(words, series, begin, ends, runs.shifted, shifts, factors, errors, parts, out)
        for i in undecided[:count].tolist() if count else ():
            vector, column = divmod(begin + i, runs.width)
            run = int(np.searchsorted(ends, column, side="right"))
            place = vector * ends.size + run
            factor = known_factors.setdefault(place, exact(place))
            floor, rest = _floor_and_rest(flat[begin + i], 1, int(runs.shifts[run]))
            near = float(factors[place]), float(errors[place])
            nearest = _decide(rest, float(runs.shifted[run]), near, factor, runs.normal, stream, start + begin + i)
            decided = Wide.from_ints([floor + nearest])
            out[0][i], out[1][i] = decided.high[0], decided.low[0]
    return Wide(high, low) if len(shape) == 1 else Wide(high.reshape(shape), low.reshape(shape))


def _inside(runs: Runs) -> Ints:
    """The shifts, 0 where `_align` has shifted already."""
    return np.where(runs.outside, 0, runs.shifts)


def _align(block: Wide, runs: Runs, outside: NDArray[np.bool_], ends: Ints, begin: int) -> tuple[Wide, Floats]:
    """(sums, fractions): where a shift is outside [0, 48) the sums are shifted here and the rest kept beside them."""
    high, low, fraction = block.high.copy(), block.low.copy(), np.zeros(len(block))
    columns = (begin + np.arange(len(block))) % ends[-1]
    shifts = runs.shifts[np.searchsorted(ends, columns, side="right")]
    for shift in np.unique(runs.shifts[outside]).tolist():
        at = np.flatnonzero(shifts == shift)
        floors, fraction[at] = Wide(block.high[at], block.low[at]).split(shift)
        high[at], low[at] = floors.high, floors.low
    return Wide(high, low), fraction


def _decide(
    rest: Fraction, scale: float, near: tuple[float, float], factor: Factor, normal: bool, stream: Stream, index: int
) -> int:
    """rint(rest + scale f x), drawing bits of x, then of f, until the rounding is certain [N6].

    near: a double and its proved distance from f, which are all that most coordinates need [N7].
    """
    from flint import arb, ctx, fmpq

    draws = stream.signed_draw(index)
    sign, tail, length = next(draws)
    bits, shared = 0, arb(*near)
    if not np.isfinite(near).all():
        bits, shared = FIRST_BITS, factor.enclose(FIRST_BITS)
    while True:
        if tail or not normal:  # else z is unbounded
            with FLINT, ctx.workprec(max(bits, length) + 128):
                base = arb(fmpq(rest.numerator, rest.denominator)) + arb(0.5)
                scaled = shared * arb(sign * scale)
                ends = [_coordinate(end, length, normal) for end in (tail, tail + 1)]
                # x is monotone in p: for every factor in the ball the two ends enclose every rounding still possible
                nearest = [(base + scaled * x).floor().unique_fmpz() for x in ends]
            if nearest[0] is not None and nearest[0] == nearest[1]:
                return int(nearest[0])
        if length <= bits + _OUTRUN:
            sign, tail, length = next(draws)
        else:
            bits = bits + 64 if bits else FIRST_BITS
            shared = factor.enclose(bits)


def _coordinate(end: int, length: int, normal: bool) -> arb:
    """|x| at one end of the interval that the bits read so far leave for p."""
    from flint import arb

    p = arb(end) * arb(2) ** -length
    return arb(2).sqrt() * p.erfcinv() if normal else p
