"""The second half of a long ledger, followed by another process while the first half is followed here.

It starts from what the entries say of themselves at the middle. That is no proof: its answer counts only where what was
found here at the middle is the very state that it started from [Q2].
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from contextlib import suppress
from typing import Any

from ..util.interpreters import ended, started
from .following import Anchor, Following, Found
from .opening import open_store


class Ahead:
    """The other process; without one, or if it fails, there is no answer, and the work is left to do here."""

    def __init__(self, address: str, middle: int, last: int, wanted: Anchor | None) -> None:
        self._process: subprocess.Popen[str] | None = None
        with suppress(OSError):
            self._process = started(__name__, text=True, stderr=subprocess.DEVNULL)
            assert self._process.stdin is not None
            with self._process.stdin as task:  # an address may hold a password, which arguments would show
                json.dump([address, middle, last, wanted], task)

    def answer(self, middle: list[Any]) -> Found | None:
        """What it found, if it began where we are."""
        if self._process is None or self._process.stdout is None:
            return None
        try:
            begun, *found = json.loads(self._process.stdout.read())
        except (OSError, ValueError):
            return None
        return Found(*found) if begun == middle else None

    def close(self) -> None:
        if self._process is not None:
            ended(self._process)


def serve() -> None:
    """The other process's life."""
    gc.disable()
    address, middle, last, wanted = json.load(sys.stdin)
    with open_store(address).reading() as transaction:
        following = Following.said_at(transaction, middle, None if wanted is None else tuple(wanted))
        begun = following.state
        following.on(transaction, last)
    json.dump([begun, *following.found], sys.stdout)
