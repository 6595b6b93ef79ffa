"""Keys and key streams: AES-256 in counter mode. The only module that asks the operating system for entropy."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError

Words = NDArray[np.uint64]

KEY_BYTES = 32
LANE_BITS = 64
BLOCK = 16384  # draws whose words and limbs stay in a core's cache
_UINT64 = np.dtype(np.uint64)
_ZEROS = memoryview(bytes(16 * BLOCK))


def keystream(key: bytes, lane: int, start: int, out: Words) -> None:
    """Fill out (count, 2) with AES-256 of the 128-bit counters lane 2^64 + start, ..., two words each."""
    counter = ((lane << LANE_BITS) + start).to_bytes(16, "big")
    encryptor = _encryptor(key, counter)
    stream = out.reshape(-1).view(np.uint8)
    for begin in range(0, stream.size, len(_ZEROS)):
        part = stream[begin : begin + len(_ZEROS)]
        encryptor.update_into(_ZEROS[: part.size], part.data)
    if sys.byteorder == "big":
        out.byteswap(inplace=True)


def _encryptor(key: bytes, counter: bytes) -> Any:
    cipher, aes, ctr = _parts()
    return cipher(aes(key), ctr(counter)).encryptor()


@cache
def _parts() -> Any:
    """Imported when noise is drawn, and looked up once."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    return Cipher, algorithms.AES, modes.CTR


def fresh_key(rng: np.random.Generator | None) -> bytes:
    check_rng(rng)
    return os.urandom(KEY_BYTES) if rng is None else rng.bytes(KEY_BYTES)


def system_words(count: int) -> Words:
    """Fresh bits of the operating system, two words each."""
    return np.ndarray((count, 2), _UINT64, bytearray(os.urandom(16 * count)))


def secret_name() -> str:
    """A name that nobody can guess, for addresses and forms of a server; no noise is drawn from it."""
    return os.urandom(KEY_BYTES).hex()


def check_rng(rng: Any) -> None:
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise UsageError(
            f"rng must be a numpy Generator or None, got {type(rng).__name__}. "
            "Use numpy.random.default_rng(seed) in tests, and leave it out when data is private."
        )
