"""The only module that touches entropy: ideal Gaussian noise, correctly rounded, and public randomness.

A release adds the *real* Gaussian to exact integers and publishes the correctly rounded result,
    K_j = rint((S_j + std z_j) / 2^shift),    z_j = ±z(p_j),    Φ(-z(p)) = p,
where p_j is a uniform real of which only as many bits are drawn as the rounding needs [N1], [N2].
"""

from __future__ import annotations

import itertools
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from .errors import Floats, UsageError, positive, whole
from .integers import LOW_BITS, Ints, Wide

Words = NDArray[np.uint64]

KEY_BYTES = 32
SCALE_BITS = 20  # std / 2^shift lies in [2^20, 2^21)
_LANE_BITS = 64
_LAST_DRAW = (1 << _LANE_BITS) - 2
_SHUFFLE_LANE = (1 << _LANE_BITS) - 1
_BLOCK = 16384  # draws whose words and limbs stay in a core's cache
_ZEROS = memoryview(bytes(16 * _BLOCK))
_NO_FRACTION = np.empty(0)
_Part = tuple[Wide, int, Floats]  # (values, shift in [0, 48), what is to be added after the shift)


def _keystream(key: bytes, lane: int, start: int, out: Words) -> None:
    """Fill out (count, 2) with AES-256 of the 128-bit counters lane 2^64 + start, ..., two words each."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    counter = ((lane << _LANE_BITS) + start).to_bytes(16, "big")
    encryptor = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()
    stream = out.reshape(-1).view(np.uint8)
    for begin in range(0, stream.size, len(_ZEROS)):
        part = stream[begin : begin + len(_ZEROS)]
        encryptor.update_into(_ZEROS[: part.size], part.data)
    if sys.byteorder == "big":
        out.byteswap(inplace=True)


def _fresh_key(rng: np.random.Generator | None) -> bytes:
    if rng is None:
        return os.urandom(KEY_BYTES)
    if not isinstance(rng, np.random.Generator):
        raise UsageError(
            f"rng must be a numpy Generator or None, got {type(rng).__name__}. "
            "Use numpy.random.default_rng(seed) in tests, and leave it out when data is private."
        )
    return rng.bytes(KEY_BYTES)


class Stream:
    """The secret random bits of one release: AES-256 in counter mode under a key of its own.

    Draw i owns counter block i (lane 0) and, if it needs more bits, all of lane i + 1, so that what one draw
    consumes never shifts another: the noise is a function of the key and the position alone [N2].

    Guarantee: a position serves one coordinate once. A second use, a pickle, a copy or a forked process would
    repeat noise, and the difference of two outputs with the same noise reveals the data, so each is refused.
    """

    __slots__ = ("_key", "_lock", "_process", "_used", "secure")

    def __init__(self, key: bytes, secure: bool) -> None:
        if len(key) != KEY_BYTES:
            raise UsageError(f"key must have {KEY_BYTES} bytes, got {len(key)}. Use Stream.open().")
        self._key = key
        self.secure = secure
        self._used: list[tuple[int, int]] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    @classmethod
    def open(cls, rng: np.random.Generator | None = None) -> Stream:
        """A stream under a fresh key: the operating system's, or (insecure, for tests) a Generator's."""
        return cls(_fresh_key(rng), secure=rng is None)

    def fill(self, start: int, out: Words) -> None:
        """Write the first 128 bits of the draws start, start + 1, ... into out, shape (count, 2)."""
        _keystream(self._key, 0, start, out)

    def words(self, start: int, count: int) -> Words:
        """The first 128 bits of the draws start, ..., start + count - 1."""
        out = np.empty((count, 2), np.uint64)
        self.fill(start, out)
        return out

    def more(self, index: int) -> Iterator[int]:
        """Further 64-bit words of one draw, without end."""
        out = np.empty((1, 2), np.uint64)
        for block in itertools.count():
            _keystream(self._key, index + 1, block, out)
            yield from map(int, out[0])

    @property
    def next(self) -> int:
        """The first position above every one that was used."""
        return max((stop for _, stop in self._used), default=0)

    def claim(self, start: int, count: int) -> None:
        """Mark positions as used; refuse any that already are."""
        stop = start + count
        if stop > _LAST_DRAW:
            raise UsageError(f"start must leave room for {count} draws below 2^64, got {start}.")
        if os.getpid() != self._process:
            raise UsageError("this stream belongs to another process. Open one with Stream.open().")
        with self._lock:
            if count and any(start < end and begin < stop for begin, end in self._used):
                raise UsageError(
                    f"start must not repeat a position of this stream, got {start}. Pass start=stream.next."
                )
            if self._used and self._used[-1][1] == start:
                start = self._used.pop()[0]
            if stop > start:
                self._used.append((start, stop))

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a Stream holds the secret of a release and cannot be copied or pickled")

    def __repr__(self) -> str:
        return f"Stream(secure={self.secure})"


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
    flat = Wide(sums.high.reshape(-1), sums.low.reshape(-1))

    def part(begin: int, stop: int) -> _Part:
        block = Wide(flat.high[begin:stop], flat.low[begin:stop])
        return (block, shift, _NO_FRACTION) if 0 <= shift < LOW_BITS else _split(block, shift)

    def exact(j: int) -> tuple[int, Fraction]:
        return _floor_and_rest(flat[j], 1, shift)

    noisy = _add(len(flat), part, exact, _scale(std, shift), stream, start)
    return Wide(noisy.high.reshape(sums.high.shape), noisy.low.reshape(sums.high.shape))


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

    return _add(len(pairs), part, pairs.__getitem__, _scale(std, shift), stream, start)


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
    """rint(value + scale z), block by block; what doubles leave open is decided exactly [N3]."""
    from ._quantile import round_noisy, table

    stream.claim(whole("start", start, least=0), size)
    series = table()
    out = Wide(np.empty(size, np.int64), np.empty(size, np.int64))
    words = np.empty((min(size, _BLOCK), 2), np.uint64)
    undecided = np.empty(len(words), np.int64)
    for begin in range(0, size, _BLOCK):
        stop = min(begin + _BLOCK, size)
        block, shift, fraction = part(begin, stop)
        bits = words[: stop - begin]
        stream.fill(start + begin, bits)
        high, low = out.high[begin:stop], out.low[begin:stop]
        count = round_noisy(bits, series, scale, block.high, block.low, shift, fraction, high, low, undecided)
        for i in undecided[:count].tolist():
            floor, rest = exact(begin + i)
            decided = Wide.from_ints([floor + _decide(rest, scale, stream, start + begin + i)])
            high[i], low[i] = decided.high[0], decided.low[0]
    return out


def _decide(fraction: Fraction, scale: float, stream: Stream, index: int) -> int:
    """rint(fraction + scale z), drawing bits and raising the precision until it is certain [N2], [N3]."""
    from flint import arb, ctx, fmpq

    from .balls import FLINT

    first, second = map(int, stream.words(index, 1)[0])
    tail, bits = ((first & ((1 << 63) - 1)) << 64) | second, 128
    signed_scale = -scale if first >> 63 else scale
    further = stream.more(index)
    while True:
        if tail:  # else p may be as small as zero and z is unbounded
            with FLINT, ctx.workprec(bits + 64):
                base = arb(fmpq(fraction.numerator, fraction.denominator)) + arb(0.5)
                factor = arb(2).sqrt() * arb(signed_scale)
                # z falls as p grows, so the two ends of p's interval enclose every rounding still possible.
                ends = [(arb(end) * arb(2) ** (1 - bits)).erfcinv() for end in (tail, tail + 1)]
                nearest = [(base + factor * z).floor().unique_fmpz() for z in ends]
            if nearest[0] is not None and nearest[0] == nearest[1]:
                return int(nearest[0])
        tail, bits = (tail << 64) | next(further), bits + 64


# ---- Public randomness: projections, rotations, subsets. Seeds here are published; never noise. ----


def public_seed(rng: np.random.Generator | None = None) -> bytes:
    """A fresh 32-byte seed that may be published. Never the key of a `Stream`."""
    return _fresh_key(rng)


def public_normals(seed: bytes, count: int, start: int = 0) -> Floats:
    """Standard normals start, ..., start + count - 1 of a public seed, in double precision."""
    from ._quantile import normals, table

    out = np.empty(count)
    for begin in range(0, count, _BLOCK):
        part = out[begin : begin + _BLOCK]
        words = np.empty((part.size, 2), np.uint64)
        _keystream(seed, 0, start + begin, words)
        normals(words, table(), part)
        for i in np.flatnonzero(np.isnan(part)).tolist():
            part[i] = _far_normal(*map(int, words[i]))
    return out


def _far_normal(first: int, second: int) -> float:
    """A public normal beyond the table, p taken at the middle of its 2^-128 interval."""
    from flint import arb, ctx

    from .balls import FLINT

    tail = ((first & ((1 << 63) - 1)) << 64) | second
    with FLINT, ctx.workprec(192):
        z = float((arb(2).sqrt() * ((2 * tail + 1) * arb(2) ** -128).erfcinv()).mid())
    return -z if first >> 63 else z


def public_words(seed: bytes, start: int, count: int) -> Words:
    """128 bits, as two words, for each of the places start, ..., start + count - 1 of a public seed."""
    words = np.empty((count, 2), np.uint64)
    _keystream(seed, _SHUFFLE_LANE, start, words)
    return words


def public_permutation(seed: bytes, n: int) -> Ints:
    """A uniform permutation of 0, ..., n - 1: the order of n 128-bit keys (within n^2 2^-129 of uniform)."""
    words = np.empty((n, 2), np.uint64)
    _keystream(seed, _SHUFFLE_LANE, 0, words)
    return np.lexsort((words[:, 1], words[:, 0])).astype(np.int64, copy=False)


def public_subset(seed: bytes, n: int, size: int) -> Ints:
    """A uniform subset of 0, ..., n - 1 of the given size, in increasing order."""
    return np.sort(public_permutation(seed, n)[:size])
