"""Following the chain: every entry is as it was written, and every sum is the sum of its charges [Q2]."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Context, Decimal, Inexact
from typing import Any

from ..errors import DataError
from .chain import Follower, anchor_of, bad, digest, parsed_anchor
from .store import Transaction

_EXACT = Context(prec=20_000, traps=[Inexact])
_ZERO = Decimal(0)
_COLUMNS = "number, body, digest, dataset, what, analyst, key, of"
_ROLLED_BACK = (
    "the ledger does not hold the anchor: it was rolled back, replaced by another copy, or rewritten. "
    "What was released since then is missing from it."
)


def verify(transaction: Transaction, anchor: str | None) -> str:
    """The anchor at the end; an error that names the first bad entry, or where an earlier anchor is not held."""
    wanted = None if anchor is None else parsed_anchor(anchor)
    follower = Follower()
    with _uncollected():
        held = _followed(transaction, follower, wanted)
    if not held:
        raise DataError(_ROLLED_BACK)
    _check_kept(transaction)
    return anchor_of(follower.number, follower.last)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without searches for circles, of which entries have none: a fourth of the time for a million of them."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _followed(transaction: Transaction, follower: Follower, wanted: tuple[int, str] | None) -> bool:
    """Follow all entries; whether the wanted one is among them."""
    held, books = wanted is None or wanted[0] == 0, _Books()
    for number, body, own, *columns in transaction.each(f"select {_COLUMNS} from ellipsum_entries order by number"):
        fields = follower.take(number, body, own)
        said = fields.get
        if columns != [said("dataset"), said("what"), said("analyst"), said("key"), said("of")]:
            raise bad(number, "its columns are not those of its text")
        books.take(number, fields)
        held = held or (number, own) == wanted
    return held


class _Books:
    """Sums of charges by data set, beside what the entries say they are."""

    def __init__(self) -> None:
        self._spent: dict[str, list[Decimal]] = {}
        self._caps: dict[str, list[Decimal]] = {}
        self._closed: set[str] = set()
        self._waiting: set[int] = set()

    def take(self, number: int, fields: Mapping[str, Any]) -> None:
        try:
            if not self._follows(number, fields):
                raise bad(number, "it does not follow from the entries before it")
        except (KeyError, TypeError, ValueError, ArithmeticError):
            raise bad(number, "it is no entry of a ledger") from None

    def _follows(self, number: int, fields: Mapping[str, Any]) -> bool:
        what, dataset = fields["what"], fields["dataset"]
        if what == "released":
            there = fields["of"] in self._waiting
            self._waiting.discard(fields["of"])
            return there
        if (what == "opened") == (dataset in self._spent) or dataset in self._closed:
            return False
        if what == "opened":
            self._spent[dataset] = []
        if what in ("opened", "fixed"):
            return self._fixed(dataset, fields["caps"])
        if what == "reserved":
            self._waiting.add(number)
            return self._added(dataset, fields)
        self._closed.add(dataset)
        return bool(what == "closed")

    def _fixed(self, dataset: str, caps: Mapping[str, Any] | None) -> bool:
        """Caps are stated once."""
        if caps is None:
            return True
        found = [_EXACT.power(Decimal(caps["mu"]), 2), Decimal(caps["slack"]), *map(Decimal, caps["epsilon"])]
        return self._caps.setdefault(dataset, found) == found

    def _added(self, dataset: str, fields: Mapping[str, Any]) -> bool:
        charge, spent = _numbers(fields["charged"]), _numbers(fields["spent"])
        caps = self._caps[dataset]
        before = self._spent[dataset] or [_ZERO] * len(caps)
        self._spent[dataset] = spent
        if not len(charge) == len(spent) == len(caps):
            return False
        for one, old, new, cap in zip(charge, before, spent, caps, strict=True):
            if one < 0 or not _EXACT.add(old, one) == new <= cap:
                return False
        return True


def _numbers(spent: Mapping[str, Any]) -> list[Decimal]:
    return [Decimal(spent["squares"]), Decimal(spent["slack"]), *map(Decimal, spent["epsilon"])]


def _check_kept(transaction: Transaction) -> None:
    """Plans and stored releases are those whose digests the entries hold."""
    for own, body in transaction.each("select digest, body from ellipsum_plans"):
        if digest(body) != own:
            raise DataError("a plan that is kept beside the entries was changed after it was written.")
    text = "select r.number, r.body, e.body from ellipsum_results r left join ellipsum_entries e on e.number = r.number"
    for number, body, entry in transaction.each(text):
        if entry is None or digest(body) not in entry:
            raise bad(int(number), "the release that is stored for it was changed")
