"""Entries that follow one another: each holds the digest of the one before it [Q2]."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from ..errors import DataError, EllipsumError, UsageError

ORIGIN = "0" * 64
"""What stands before the first entry."""
_scan: Any = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_DAMAGED = "an entry of this ledger is damaged; ellipsum ledger verify names it. Nothing was published."
_ANCHOR = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")


def canonical(fields: Mapping[str, Any]) -> str:
    """One text for one content."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def anchor_of(number: int, last: str) -> str:
    """A few letters that stand for everything up to an entry."""
    return f"{number}:{last}"


def parsed_anchor(anchor: str) -> tuple[int, str]:
    found = _ANCHOR.fullmatch(anchor.strip()) if isinstance(anchor, str) else None
    if found is None:
        raise UsageError("an anchor is a number, a colon and 64 hexadecimal digits, as ledger show prints it.")
    return int(found[1]), found[2]


def bad(number: int, why: str) -> DataError:
    """What to say of the first entry that is not as it was written."""
    return DataError(f"entry {number} is bad: {why}. What follows it proves nothing.")


NO_ENTRY = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What comes of an entry that this house did not write."""


@contextmanager
def as_written() -> Iterator[None]:
    """Entries are taken here as they stand; which of them is bad, `verify` says."""
    try:
        yield
    except EllipsumError:
        raise
    except NO_ENTRY:
        raise DataError(_DAMAGED) from None


def fields_of(number: int, body: str, stored: str) -> dict[str, Any]:
    """What an entry says, if its text is the one that its digest is of."""
    with as_written():
        if digest(body) != stored:
            raise bad(number, "it was changed after it was written")
        found: dict[str, Any] = json.loads(body)
        return found


class Follower:
    """Takes the entries in order, and complains of the first that does not follow from the one before."""

    def __init__(self) -> None:
        self.number = 0
        self.last = ORIGIN

    def take(self, number: int, body: str, stored: str) -> dict[str, Any]:
        """The fields of the next entry."""
        if number != self.number + 1:
            raise bad(self.number + 1, "it is missing")
        try:
            if sha256(body.encode()).hexdigest() != stored:
                raise bad(number, "it was changed after it was written")
            fields, end = _scan(body, 0)  # without the ceremony of json.loads, for a million of them
            follows = fields["before"] == self.last and fields["number"] == number
        except (*NO_ENTRY, StopIteration):
            raise bad(number, "it is no entry of a ledger") from None
        if not follows or end != len(body):
            raise bad(number, "it does not follow the entry before it")
        self.number, self.last = number, stored
        found: dict[str, Any] = fields
        return found
