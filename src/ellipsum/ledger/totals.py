"""Sums of charges by data set, beside what the entries say they are [Q2]."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Context, Decimal, Inexact
from functools import lru_cache
from operator import le
from typing import Any

from .chain import NO_ENTRY, bad, canonical, digest
from .store import Transaction

_EXACT = Context(prec=20_000, traps=[Inexact])
_ZERO = Decimal(0)
_NAMES = (
    "with recursive names (name) as (select min(dataset) from ellipsum_entries union select "
    "(select min(dataset) from ellipsum_entries where dataset > name) from names where name is not null) "
    "select name from names where name is not null"
)
_STATED = (
    "select number, body from ellipsum_entries where dataset = ? and what in ('opened', 'fixed', 'closed') "
    "and number <= ? order by number"
)
_LAST = (
    "select body from ellipsum_entries where dataset = ? and what = 'reserved' and number <= ? "
    "order by number desc limit 1"
)
_WAITING = (
    "select number from ellipsum_entries r where dataset = ? and what = 'reserved' and number <= ? and not exists "
    "(select 1 from ellipsum_entries s where s.of = r.number and s.number <= ?)"
)


class Tally:
    """Takes the entries in order, and complains of the first that does not follow from those before it."""

    def __init__(self) -> None:
        self._spent: dict[str, list[Decimal]] = {}
        self._caps: dict[str, list[Decimal]] = {}
        self._closed: set[str] = set()
        self._waiting: set[int] = set()
        self.plans: set[str] = set()
        """The digests of plans that were met on the way."""

    @staticmethod
    def said_at(transaction: Transaction, number: int) -> Tally:
        """The tally after an entry as the entries up to there have it, which somebody else has to check."""
        tally = Tally()
        for (dataset,) in transaction.run(_NAMES):
            for place, body in transaction.run(_STATED, [dataset, number]):
                tally.take(int(place), json.loads(body))
            for (body,) in transaction.run(_LAST, [dataset, number]):
                tally._spent[dataset] = _numbers(json.loads(body)["spent"])
            tally._waiting.update(int(place) for (place,) in transaction.run(_WAITING, [dataset, number, number]))
        return tally

    @property
    def digest(self) -> str:
        """One text for one state."""
        amounts = [
            {name: list(map(str, values)) for name, values in kept.items()} for kept in (self._spent, self._caps)
        ]
        return digest(canonical({"amounts": amounts, "closed": sorted(self._closed), "of": sorted(self._waiting)}))

    def take(self, number: int, fields: Mapping[str, Any]) -> None:
        try:
            what = fields["what"]
            if what == "reserved":
                follows = self._reserved(number, fields)
            elif what == "released":
                follows = self._released(fields["of"])
            else:
                follows = self._stated(what, fields)
        except NO_ENTRY:
            raise bad(number, "it is no entry of a ledger") from None
        if not follows:
            raise bad(number, "it does not follow from the entries before it")

    def _released(self, reservation: int) -> bool:
        """Once, of a charge."""
        there = reservation in self._waiting
        self._waiting.discard(reservation)
        return there

    def _stated(self, what: str, fields: Mapping[str, Any]) -> bool:
        dataset = fields["dataset"]
        if (what == "opened") == (dataset in self._spent) or dataset in self._closed:
            return False
        if what == "opened":
            self._spent[dataset] = []
        if what in ("opened", "fixed"):
            return self._fixed(dataset, fields["caps"])
        self._closed.add(dataset)
        return what == "closed"

    def _fixed(self, dataset: str, caps: Mapping[str, Any] | None) -> bool:
        """Caps are stated once."""
        if caps is None:
            return True
        found = [_EXACT.power(Decimal(caps["mu"]), 2), Decimal(caps["slack"]), *map(Decimal, caps["epsilon"])]
        return self._caps.setdefault(dataset, found) == found

    def _reserved(self, number: int, fields: Mapping[str, Any]) -> bool:
        """What is spent is what was spent before and the charge, and within the caps."""
        dataset, charged = fields["dataset"], fields["charged"]
        caps = self._caps.get(dataset)
        if caps is None or dataset in self._closed:
            return False
        self._waiting.add(number)
        self.plans.add(fields["plan"])
        charge = _charge(charged["squares"], charged["slack"], *charged["epsilon"])
        before = self._spent[dataset] or [_ZERO] * len(caps)
        spent = self._spent[dataset] = _numbers(fields["spent"])
        if not len(charge) == len(spent) == len(caps):
            return False
        return [*map(_EXACT.add, before, charge)] == spent and all(map(le, spent, caps))


def _numbers(spent: Mapping[str, Any]) -> list[Decimal]:
    return [Decimal(spent["squares"]), Decimal(spent["slack"]), *map(Decimal, spent["epsilon"])]


@lru_cache(maxsize=1000)  # charges are often alike
def _charge(*amounts: str) -> tuple[Decimal, ...]:
    """Squares, slack and epsilons."""
    found = tuple(map(Decimal, amounts))
    if min(found) < 0:
        raise ValueError("no charge")
    return found
