"""Public randomness: projections, rotations, subsets, orders. Seeds here may be published; never noise."""

from __future__ import annotations

import numpy as np

from ..errors import Floats
from ..numerics.rounding import FLINT
from ..numerics.wide_integers import LOW_BITS, Ints, Wide
from .gaussian import add_noise
from .stream import BLOCK, LANE_BITS, Stream, Words, fresh_key, keystream

_PART = 1 << 20
_SHUFFLE_LANE = (1 << LANE_BITS) - 1


def public_seed(rng: np.random.Generator | None = None) -> bytes:
    """A fresh 32-byte seed that may be published. Never the key of a `Stream`."""
    return fresh_key(rng)


def public_normals(seed: bytes, count: int, start: int = 0) -> Floats:
    """Standard normals start, ..., start + count - 1 of a public seed, in double precision."""
    from .quantile_table import normals, table

    out = np.empty(count)
    for begin in range(0, count, BLOCK):
        part = out[begin : begin + BLOCK]
        words = np.empty((part.size, 2), np.uint64)
        keystream(seed, 0, start + begin, words)
        normals(words, table(), part)
        for i in np.flatnonzero(np.isnan(part)).tolist():
            part[i] = _far_normal(*map(int, words[i]))
    return out


def _far_normal(first: int, second: int) -> float:
    """A public normal beyond the table, p taken at the middle of its 2^-128 interval."""
    from flint import arb, ctx

    tail = ((first & ((1 << 63) - 1)) << 64) | second
    with FLINT, ctx.workprec(192):
        z = float((arb(2).sqrt() * ((2 * tail + 1) * arb(2) ** -128).erfcinv()).mid())
    return -z if first >> 63 else z


def public_words(seed: bytes, start: int, count: int) -> Words:
    """128 bits, as two words, for each of the places start, ..., start + count - 1 of a public seed."""
    words = np.empty((count, 2), np.uint64)
    keystream(seed, _SHUFFLE_LANE, start, words)
    return words


def public_permutation(seed: bytes, n: int) -> Ints:
    """A uniform permutation of 0, ..., n - 1: the order of n 128-bit keys (within n^2 2^-129 of uniform)."""
    words = np.empty((n, 2), np.uint64)
    keystream(seed, _SHUFFLE_LANE, 0, words)
    return np.lexsort((words[:, 1], words[:, 0])).astype(np.int64, copy=False)


def public_subset(seed: bytes, n: int, size: int) -> Ints:
    """A uniform subset of 0, ..., n - 1 of the given size, in increasing order."""
    return np.sort(public_permutation(seed, n)[:size])


def seed_globals(seed: bytes) -> None:
    """Start the generators that Python's and numpy's modules share among all callers, in a process of its own [F10]."""
    import random

    random.seed(seed)
    np.random.seed(np.frombuffer(seed, "<u4"))


def public_integers(seed: bytes, std: float, count: int) -> Ints:
    """Ideal N(0, std^2) variables of a public seed, each correctly rounded to an integer; std as `shift_for` has it."""
    stream = Stream(seed, secure=False)
    out = np.empty(count, np.int64)
    for start in range(0, count, _PART):
        part = out[start : start + _PART]
        drawn = add_noise(Wide.zeros(part.size), std, 0, stream, start)
        part[:] = (drawn.high << LOW_BITS) + drawn.low
    return out


def public_generator(seed: bytes) -> np.random.Generator:
    """numpy's generator, started from a public seed: for made-up data and for mechanisms under audit."""
    return np.random.default_rng(np.frombuffer(seed, "<u4"))
