"""Check that a ledger is as it was written: the chain of entries, their sums, and what is kept beside them [Q2]."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Context, Decimal, Inexact
from functools import lru_cache
from hashlib import sha256
from operator import le
from typing import Any

from ..errors import DataError
from .entries import MALFORMED, ORIGIN, Transaction, bad_entry, canonical, digest, format_anchor, parse_anchor
from .stores import Store

_EXACT = Context(prec=20_000, traps=[Inexact])
_ZERO = Decimal(0)
_scan: Any = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_ROLLED_BACK = (
    "the ledger does not hold the anchor: it was rolled back, replaced by another copy, or rewritten. "
    "What was released since then is missing from it."
)
_BAD_INDEX = "the ledger's indices do not find what its entries hold: the file is damaged, or was tampered with."
_ENTRIES = "select number, body, digest, dataset, what, analyst, key, of from ellipsum_entries order by number"
_RESULTS = "select r.number, r.body, e.body from ellipsum_results r left join ellipsum_entries e on e.number = r.number"
_MISSING_RESULTS = (
    "select s.number from ellipsum_entries r join ellipsum_entries s on s.of = r.number where r.key is not null "
    "and not exists (select 1 from ellipsum_results k where k.number = s.number) order by s.number limit 1"
)
_NAMES = (
    "with recursive names (name) as (select min(dataset) from ellipsum_entries union select "
    "(select min(dataset) from ellipsum_entries where dataset > name) from names where name is not null) "
    "select name from names where name is not null"
)
_BUDGETS = (
    "select number, body from ellipsum_entries where dataset = ? and what in ('opened', 'fixed', 'closed') "
    "order by number"
)
_LAST_CHARGE = "select body from ellipsum_entries where dataset = ? and what = 'reserved' order by number desc limit 1"
_UNRELEASED = (
    "select number from ellipsum_entries r where dataset = ? and what = 'reserved' and not exists "
    "(select 1 from ellipsum_entries s where s.of = r.number)"
)


def verify(store: Store, anchor: str | None) -> str:
    """Return the anchor at the end; raise an error that names the first bad entry, or an earlier anchor not held."""
    wanted = (0, ORIGIN) if anchor is None else parse_anchor(anchor)
    chain, totals = EntryChain(), Totals()
    held = wanted == (0, ORIGIN)
    with store.reading() as transaction:
        for number, body, own, *columns in transaction.each(_ENTRIES):
            fields = chain.take(number, body, own)
            if columns != [fields.get(name) for name in ("dataset", "what", "analyst", "key", "of")]:
                raise bad_entry(number, "its columns are not those of its text")
            totals.take(number, fields)
            held = held or (number, own) == wanted
        if not held:
            raise DataError(_ROLLED_BACK)
        if totals_by_index(transaction).digest != totals.digest:
            raise DataError(_BAD_INDEX)
        _check_plans(transaction, set(totals.plans))
        _check_results(transaction)
    return format_anchor(chain.number, chain.last)


def _check_plans(transaction: Transaction, wanted: set[str]) -> None:
    """Raise an error unless the stored plans are those whose digests the entries hold."""
    for own, body in transaction.each("select digest, body from ellipsum_plans"):
        if not _has_digest(body, own):
            raise DataError("a plan that is kept beside the entries was changed after it was written.")
        wanted.discard(own)
    if wanted:
        raise DataError("a plan that was kept beside the entries is missing.")


def _check_results(transaction: Transaction) -> None:
    """Raise an error unless every release with a request ID is stored, and is the one that its entry names."""
    for number, body, entry in transaction.each(_RESULTS):
        if entry is None or not _has_digest(body, json.loads(entry).get("release")):
            raise bad_entry(int(number), "the release that is stored for it was changed")
    for (number,) in transaction.run(_MISSING_RESULTS):
        raise bad_entry(int(number), "the release that was stored for it is missing")


def _has_digest(body: object, own: object) -> bool:
    return isinstance(body, str) and digest(body) == own


class EntryChain:
    """Takes the entries in order, and names the first that does not follow the one before it."""

    def __init__(self) -> None:
        self.number = 0
        self.last = ORIGIN

    def take(self, number: int, body: str, stored: str) -> dict[str, Any]:
        """The fields of the next entry."""
        if number != self.number + 1:
            raise bad_entry(self.number + 1, "it is missing")
        try:
            if sha256(body.encode()).hexdigest() != stored:
                raise bad_entry(number, "it was changed after it was written")
            fields, end = _scan(body, 0)  # json.loads takes noticeably longer for a million entries
            follows = fields["before"] == self.last and fields["number"] == number
        except (*MALFORMED, StopIteration):
            raise bad_entry(number, "it is no entry of a ledger") from None
        if not follows or end != len(body):
            raise bad_entry(number, "it does not follow the entry before it")
        self.number, self.last = number, stored
        entry: dict[str, Any] = fields
        return entry


class Totals:
    """Sums of charges by data set. Names the first entry whose sums do not follow from the entries before it."""

    def __init__(self) -> None:
        self._spent: dict[str, list[Decimal]] = {}
        self._caps: dict[str, list[Decimal]] = {}
        self._closed: set[str] = set()
        self._unreleased: set[int] = set()
        self.plans: set[str] = set()
        """The digests of all plans that the entries name."""

    @property
    def digest(self) -> str:
        """One text for one state."""
        amounts = [
            {name: list(map(str, values)) for name, values in kept.items()} for kept in (self._spent, self._caps)
        ]
        return digest(canonical({"amounts": amounts, "closed": sorted(self._closed), "of": sorted(self._unreleased)}))

    def take(self, number: int, fields: Mapping[str, Any]) -> None:
        try:
            what = fields["what"]
            if what == "reserved":
                follows = self._add_charge(number, fields)
            elif what == "released":
                follows = self._add_release(fields["of"])
            else:
                follows = self._add_budget(what, fields)
        except MALFORMED:
            raise bad_entry(number, "it is no entry of a ledger") from None
        if not follows:
            raise bad_entry(number, "it does not follow from the entries before it")

    def _add_release(self, reservation: int) -> bool:
        """Whether a charge is released once."""
        is_known = reservation in self._unreleased
        self._unreleased.discard(reservation)
        return is_known

    def _add_budget(self, what: str, fields: Mapping[str, Any]) -> bool:
        """Whether a budget is opened once, and neither fixed nor closed before it is opened."""
        dataset = fields["dataset"]
        if (what == "opened") == (dataset in self._spent) or dataset in self._closed:
            return False
        if what == "opened":
            self._spent[dataset] = []
        if what in ("opened", "fixed"):
            return self._fix_caps(dataset, fields["caps"])
        self._closed.add(dataset)
        return what == "closed"

    def _fix_caps(self, dataset: str, caps: Mapping[str, Any] | None) -> bool:
        """Whether caps are stated once."""
        if caps is None:
            return True
        amounts = [_EXACT.power(Decimal(caps["mu"]), 2), Decimal(caps["slack"]), *map(Decimal, caps["epsilon"])]
        return self._caps.setdefault(dataset, amounts) == amounts

    def _add_charge(self, number: int, fields: Mapping[str, Any]) -> bool:
        """Whether the spent amounts are those before plus the charge, and within the caps."""
        dataset, charged = fields["dataset"], fields["charged"]
        caps = self._caps.get(dataset)
        if caps is None or dataset in self._closed:
            return False
        self._unreleased.add(number)
        self.plans.add(fields["plan"])
        charge = _parse_charge(charged["squares"], charged["slack"], *charged["epsilon"])
        before = self._spent[dataset] or [_ZERO] * len(caps)
        spent = self._spent[dataset] = _parse_spent(fields["spent"])
        if not len(charge) == len(spent) == len(caps):
            return False
        return [*map(_EXACT.add, before, charge)] == spent and all(map(le, spent, caps))

    def look_up(self, transaction: Transaction, dataset: str) -> None:
        """Take the state of a data set from the entries that the indices find."""
        for number, body in transaction.run(_BUDGETS, [dataset]):
            self.take(int(number), json.loads(body))
        for (body,) in transaction.run(_LAST_CHARGE, [dataset]):
            self._spent[dataset] = _parse_spent(json.loads(body)["spent"])
        self._unreleased.update(int(number) for (number,) in transaction.run(_UNRELEASED, [dataset]))


def totals_by_index(transaction: Transaction) -> Totals:
    """The totals as charging reads them: from the few entries that the indices find."""
    totals = Totals()
    for (dataset,) in transaction.run(_NAMES):
        totals.look_up(transaction, dataset)
    return totals


def _parse_spent(spent: Mapping[str, Any]) -> list[Decimal]:
    return [Decimal(spent["squares"]), Decimal(spent["slack"]), *map(Decimal, spent["epsilon"])]


@lru_cache(maxsize=1000)  # many charges are equal
def _parse_charge(*amounts: str) -> tuple[Decimal, ...]:
    """Squares, slack and epsilons."""
    charge = tuple(map(Decimal, amounts))
    if min(charge) < 0:
        raise ValueError("no charge")
    return charge
