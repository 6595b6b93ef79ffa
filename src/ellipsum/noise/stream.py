"""The secret random bits of one release: AES-256 in counter mode. The only module that asks the system for entropy."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError

Words = NDArray[np.uint64]
Fill = Callable[[Words], None]

KEY_BYTES = 32
LANE_BITS = 64
BLOCK = 16384  # draws whose words and limbs stay in a core's cache
_LAST_DRAW = (1 << LANE_BITS) - 2
_ZEROS = memoryview(bytes(16 * BLOCK))


def keystream(key: bytes, lane: int, start: int, out: Words) -> None:
    """Fill out (count, 2) with AES-256 of the 128-bit counters lane 2^64 + start, ..., two words each."""
    words_from(key, lane, start)(out)


def words_from(key: bytes, lane: int, start: int) -> Fill:
    """`keystream`, where each call continues behind what the one before it filled."""
    cipher, aes, ctr = _parts()
    encryptor = cipher(aes(key), ctr(((lane << LANE_BITS) + start).to_bytes(16, "big"))).encryptor()

    def fill(out: Words) -> None:
        stream = out.reshape(-1).view(np.uint8)
        for begin in range(0, stream.size, len(_ZEROS)):
            part = stream[begin : begin + len(_ZEROS)]
            encryptor.update_into(_ZEROS[: part.size], part.data)
        if sys.byteorder == "big":
            out.byteswap(inplace=True)

    return fill


@cache
def _parts() -> Any:
    """Imported when noise is drawn, and looked up once."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    return Cipher, algorithms.AES, modes.CTR


def fresh_key(rng: np.random.Generator | None) -> bytes:
    check_rng(rng)
    return os.urandom(KEY_BYTES) if rng is None else rng.bytes(KEY_BYTES)


def secret_name() -> str:
    """An unguessable name, for addresses and forms of a server; no noise is drawn from it."""
    return os.urandom(KEY_BYTES).hex()


def check_rng(rng: Any) -> None:
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise UsageError(
            f"rng must be a numpy Generator or None, got {type(rng).__name__}. "
            "Use numpy.random.default_rng(seed) in tests, and leave it out when data is private."
        )


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
        return cls(fresh_key(rng), rng is None)

    def draws_from(self, start: int) -> Fill:
        """Writes the first 128 bits of the draws start, start + 1, ... into arrays (count, 2), call by call."""
        return words_from(self._key, 0, start)

    def words(self, start: int, count: int) -> Words:
        """The first 128 bits of the draws start, ..., start + count - 1."""
        out = np.empty((count, 2), np.uint64)
        self.draws_from(start)(out)
        return out

    def blocks(self, start: int, count: int) -> Iterator[tuple[int, int, Words]]:
        """(begin, stop, words) of the draws from start on, block by block; the next may overwrite the words."""
        buffer, fill = np.empty((min(BLOCK, count), 2), np.uint64), self.draws_from(start)
        for begin in range(0, count, BLOCK):
            stop = min(begin + BLOCK, count)
            fill(buffer[: stop - begin])
            yield begin, stop, buffer[: stop - begin]

    def more(self, index: int) -> Iterator[int]:
        """Further 64-bit words of one draw, without end."""
        out, fill = np.empty((1, 2), np.uint64), words_from(self._key, index + 1, 0)
        while True:
            fill(out)
            yield from map(int, out[0])

    def signed_draw(self, index: int) -> Iterator[tuple[int, int, int]]:
        """(sign, the bits after it as an integer, how many they are) of one draw: 127 bits, then 64 more each time."""
        first, second = map(int, self.words(index, 1)[0])
        sign, bits, length = -1 if first >> 63 else 1, ((first & ((1 << 63) - 1)) << 64) | second, 127
        further = self.more(index)
        while True:
            yield sign, bits, length
            bits, length = (bits << 64) | next(further), length + 64

    @property
    def next(self) -> int:
        """The first position above every one that was used."""
        return max((stop for _, stop in self._used), default=0)

    def claim(self, start: int, count: int) -> None:
        """Mark positions as used; refuse any that already are."""
        stop, used = start + count, self._used
        with self._lock:
            if stop > _LAST_DRAW:
                raise UsageError(f"start must allow {count} draws below 2^64, got {start}.")
            if os.getpid() != self._process:
                raise UsageError("This stream belongs to another process. Open one with Stream.open().")
            if count and any(start < end and begin < stop for begin, end in used):
                raise UsageError(
                    f"start must not repeat a position of this stream, got {start}. Pass start=stream.next."
                )
            if used and used[-1][1] == start:
                start = used.pop()[0]
            if stop > start:
                used.append((start, stop))

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("A Stream holds the secret of a release and cannot be copied or pickled.")

    def __repr__(self) -> str:
        return f"Stream(secure={self.secure})"
