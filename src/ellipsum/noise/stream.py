"""The secret random bits of one release."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from ..errors import UsageError
from .entropy import (
    BLOCK,
    KEY_BYTES,
    LANE_BITS,
    Words,
    fresh_key,
    keystream,
    system_words,
)

_LAST_DRAW = (1 << LANE_BITS) - 2
_FEW = 128  # draws that take no longer from the operating system than from a cipher
_NOTHING = np.empty((0, 2), np.uint64)


class Stream:
    """The secret random bits of one release: AES-256 in counter mode under a key of its own.

    Draw i owns counter block i (lane 0) and, if it needs more bits, all of lane i + 1, so that what one draw
    consumes never shifts another: the noise is a function of the key and the position alone [N2]. The first stretch,
    where it is short, is the operating system's own bits in place of the cipher's: a key takes longer to set up.

    Guarantee: a position serves one coordinate once. A second use, a pickle, a copy or a forked process would
    repeat noise, and the difference of two outputs with the same noise reveals the data, so each is refused.
    """

    __slots__ = ("_ahead", "_fixed", "_key", "_lock", "_process", "_used", "secure")

    def __init__(self, key: bytes | None, secure: bool) -> None:
        if key is not None and len(key) != KEY_BYTES:
            raise UsageError(f"key must have {KEY_BYTES} bytes, got {len(key)}. Use Stream.open().")
        self._key = key
        """None until something is read under it, where it is the operating system's."""
        self.secure = secure
        self._used: list[tuple[int, int]] = []
        self._ahead: tuple[int, Words] = 0, _NOTHING
        self._fixed = False
        """Whether what was read ahead is the operating system's own."""
        self._lock = threading.Lock()
        self._process = os.getpid()

    @classmethod
    def open(cls, rng: np.random.Generator | None = None) -> Stream:
        """A stream under a fresh key: the operating system's, or (insecure, for tests) a Generator's."""
        return cls(None, True) if rng is None else cls(fresh_key(rng), False)

    def _secret(self) -> bytes:
        with self._lock:
            if self._key is None:
                self._key = fresh_key(None)
            return self._key

    def fill(self, start: int, out: Words) -> None:
        """Write the first 128 bits of the draws start, start + 1, ... into out, shape (count, 2)."""
        first, ahead = self._ahead
        begin = start - first
        if 0 <= begin <= len(ahead) - len(out):
            out[:] = ahead[begin : begin + len(out)]
            return
        keystream(self._secret(), 0, start, out)
        low, high = max(start, first), min(start + len(out), first + len(ahead))
        if low < high:
            out[low - start : high - start] = ahead[low - first : high - first]

    def read_ahead(self, start: int, count: int) -> None:
        """Draws of a short stretch, made at once: opening a key stream takes time.

        A few draws, where nothing was read before, are the operating system's own bits; and they stay what they are.
        """
        if not 0 < count <= BLOCK or self._fixed:
            return
        if self._key is None and count <= _FEW:
            with self._lock:
                if self._key is None and not self._fixed:
                    self._ahead, self._fixed = (start, system_words(count)), True
        if not self._fixed:
            words = np.empty((count, 2), np.uint64)
            self.fill(start, words)
            self._ahead = start, words

    def words(self, start: int, count: int) -> Words:
        """The first 128 bits of the draws start, ..., start + count - 1; not to be written to."""
        first, ahead = self._ahead
        begin = start - first
        if 0 <= begin <= len(ahead) - count:
            return ahead[begin : begin + count]
        out = np.empty((count, 2), np.uint64)
        self.fill(start, out)
        return out

    def blocks(self, start: int, count: int) -> Iterator[tuple[int, int, Words]]:
        """(begin, stop, words) of the draws from start on, block by block; the next may overwrite the words."""
        if count <= BLOCK:
            yield 0, count, self.words(start, count)
            return
        buffer = np.empty((BLOCK, 2), np.uint64)
        for begin in range(0, count, BLOCK):
            stop = min(begin + BLOCK, count)
            self.fill(start + begin, buffer[: stop - begin])
            yield begin, stop, buffer[: stop - begin]

    def more(self, index: int) -> Iterator[int]:
        """Further 64-bit words of one draw, without end."""
        out = np.empty((1, 2), np.uint64)
        for block in itertools.count():
            keystream(self._secret(), index + 1, block, out)
            yield from map(int, out[0])

    @property
    def next(self) -> int:
        """The first position above every one that was used."""
        return max((stop for _, stop in self._used), default=0)

    def claim(self, start: int, count: int) -> None:
        """Mark positions as used; refuse any that already are."""
        with self._lock:
            self._mark(start, count)

    def _mark(self, start: int, count: int) -> None:
        stop, used = start + count, self._used
        if stop > _LAST_DRAW:
            raise UsageError(f"start must leave room for {count} draws below 2^64, got {start}.")
        if os.getpid() != self._process:
            raise UsageError("this stream belongs to another process. Open one with Stream.open().")
        if count and used and any(start < end and begin < stop for begin, end in used):
            raise UsageError(f"start must not repeat a position of this stream, got {start}. Pass start=stream.next.")
        if used and used[-1][1] == start:
            start = used.pop()[0]
        if stop > start:
            used.append((start, stop))

    def take(self, start: int, count: int) -> Words | None:
        """`claim`, and the words of a short stretch, read ahead; None for a longer one."""
        with self._lock:
            self._mark(start, count)
            if self._key is None and not self._fixed and 0 < count <= _FEW:
                words = system_words(count)
                self._ahead, self._fixed = (start, words), True
                return words
        if count > BLOCK:
            return None
        self.read_ahead(start, count)
        return self.words(start, count)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a Stream holds the secret of a release and cannot be copied or pickled")

    def __repr__(self) -> str:
        return f"Stream(secure={self.secure})"
