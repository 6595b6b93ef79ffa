"""Pure-epsilon noise for boxes, correctly rounded: a block of columns shares a Gamma radius [K1], [N6].

Block g of k columns draws r ~ Gamma(k + 1) and, for each column, u uniform on [-1, 1]; its noise is scale_g r u. One
block of one column is Laplace noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import Floats, UsageError, vector, whole
from ..numerics.wide_integers import Ints, Wide
from .entropy import Words
from .gaussian import SCALE_BITS
from .stream import Stream

if TYPE_CHECKING:
    from .shared_factor import Factor
    from .vectors import Runs

_NOTHING = np.empty(0)
_COLUMNS = "sizes must add up to the columns, each at least 1. Pass the blocks of the plan."


def box_shifts(scales: Sequence[float] | Floats, sizes: Sequence[int] | Ints) -> Ints:
    """The shift of each block's coordinates: their own std over 2^shift lies in [2^20, 2^21)."""
    counts = np.asarray(sizes, np.int64)
    std = np.asarray(scales, np.float64) * np.sqrt((counts + 1) * (counts + 2) / 3)
    if not (std.min() > 0 and std.max() < np.inf):
        raise UsageError("scales must be > 0 and the noise they make finite. Check the plan's blocks.")
    return np.frexp(std)[1].astype(np.int64) - SCALE_BITS - 1


def box_draws(sizes: Sequence[int], vectors: int = 1) -> int:
    """How many positions of a stream the noise of so many vectors takes."""
    return vectors * (2 * sum(sizes) + len(sizes))


def box_runs(sizes: Sequence[int] | Ints, scales: Sequence[float] | Floats) -> Runs:
    """Blocks of so many columns each, with their scales of noise."""
    counts, levels = np.array(sizes, np.int64), vector("scales", scales, len(sizes))
    if not (counts.size and counts.min() > 0):
        raise UsageError(_COLUMNS)
    runs: Runs = compiled_parts()[1].Runs(counts, levels, box_shifts(levels, counts), normal=False)
    return runs


def add_box_noise(sums: Wide, sizes: Sequence[int], scales: Sequence[float], stream: Stream, start: int = 0) -> Wide:
    """K_j = rint((S_j + scale_g r_g u_j) / 2^shift_g), shift_g = box_shifts. [K1]

    The last axis of `sums` holds the columns block by block; every other index is a vector with noise of its own.

    Guarantee: K is a function of the ideal release S + eta alone, eta of density proportional to
    exp(-sum_g max_{j in g} |eta_j| / scale_g); so where column j of S moves by at most D_j between neighbors and
    scale_g >= D_j / epsilon_g, it is (sum epsilon_g)-private and pure, nothing added for finite precision [N6].

    Draws: the radii's k_g + 1 uniforms block by block, vector by vector, then one per coordinate in C order.
    """
    return add_block_noise(sums, box_runs(sizes, scales), stream, start)


def add_block_noise(sums: Wide, runs: Runs, stream: Stream, start: int = 0) -> Wide:
    """`add_box_noise` for blocks that were made before."""
    shared_factor, vectors_of = compiled_parts()
    if runs.width != sums.high.shape[-1]:
        raise UsageError(_COLUMNS)
    vectors, radii = sums.high.size // runs.width, runs.width + runs.sizes.size
    draws = vectors * (radii + runs.width)
    words = stream.take(whole("start", start, least=0), draws)
    if not vectors:
        return sums
    if words is not None and len(sums.high.shape) == 1 and runs.served is not None:
        few = _add_few(sums, words[:radii], words[radii:], runs)
        if few is not None:
            return few
    uniforms = runs.longer if vectors == 1 else np.tile(runs.longer, vectors)

    def exact(place: int) -> Factor:
        factor: Factor = shared_factor.Factor(stream, start + int(uniforms[:place].sum()), int(uniforms[place]))
        return factor

    factors, errors = shared_factor.exponential_sums(stream, start, uniforms, vectors * radii)
    noisy: Wide = vectors_of.add_vectors(sums, runs, factors, errors, exact, stream, start + vectors * radii)
    return noisy


def _add_few(sums: Wide, radii: Words, draws: Words, runs: Runs) -> Wide | None:
    """One vector, without what others need; None where doubles leave a coordinate open [N7]."""
    (shared_factor, vectors), count, size = compiled_parts(), runs.sizes.size, len(draws)
    factors, errors, state = np.empty(count), np.empty(count), np.zeros(5)
    shared_factor._exponential_sums(radii, runs.longer, state, factors, errors)
    high, low, undecided = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    still_open = vectors._round_runs(
        draws, None, 0, runs.ends, runs.shifted, runs.served, factors, errors, sums.high, sums.low, _NOTHING,
        high, low, undecided,
    )  # fmt: skip
    return None if still_open else Wide(high, low)


@cache
def compiled_parts() -> tuple[Any, Any]:
    """What compiles: imported when noise is drawn, and looked up once."""
    from . import shared_factor, vectors

    return shared_factor, vectors
