"""The secret random bits of one release."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from ..errors import UsageError
from .entropy import BLOCK, KEY_BYTES, LANE_BITS, Words, fresh_key, keystream

_LAST_DRAW = (1 << LANE_BITS) - 2


class Stream:
    """The secret random bits of one release: AES-256 in counter mode under a key of its own.

    Draw i owns counter block i (lane 0) and, if it needs more bits, all of lane i + 1, so that what one draw
    consumes never shifts another: the noise is a function of the key and the position alone [N2].

    Guarantee: a position serves one coordinate once. A second use, a pickle, a copy or a forked process would
    repeat noise, and the difference of two outputs with the same noise reveals the data, so each is refused.
    """

    __slots__ = ("_ahead", "_key", "_lock", "_process", "_used", "secure")

    def __init__(self, key: bytes, secure: bool) -> None:
        if len(key) != KEY_BYTES:
            raise UsageError(f"key must have {KEY_BYTES} bytes, got {len(key)}. Use Stream.open().")
        self._key = key
        self.secure = secure
        self._used: list[tuple[int, int]] = []
        self._ahead: tuple[int, Words] = 0, np.empty((0, 2), np.uint64)
        self._lock = threading.Lock()
        self._process = os.getpid()

    @classmethod
    def open(cls, rng: np.random.Generator | None = None) -> Stream:
        """A stream under a fresh key: the operating system's, or (insecure, for tests) a Generator's."""
        return cls(fresh_key(rng), secure=rng is None)

    def fill(self, start: int, out: Words) -> None:
        """Write the first 128 bits of the draws start, start + 1, ... into out, shape (count, 2)."""
        first, words = self._ahead
        begin = start - first
        if 0 <= begin <= len(words) - len(out):
            out[:] = words[begin : begin + len(out)]
        else:
            keystream(self._key, 0, start, out)

    def read_ahead(self, start: int, count: int) -> None:
        """Draws of a short stretch, made at once: opening a key stream takes time, and the bits are the same."""
        if count <= BLOCK:
            self._ahead = start, self.words(start, count)

    def words(self, start: int, count: int) -> Words:
        """The first 128 bits of the draws start, ..., start + count - 1."""
        out = np.empty((count, 2), np.uint64)
        self.fill(start, out)
        return out

    def more(self, index: int) -> Iterator[int]:
        """Further 64-bit words of one draw, without end."""
        out = np.empty((1, 2), np.uint64)
        for block in itertools.count():
            keystream(self._key, index + 1, block, out)
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
