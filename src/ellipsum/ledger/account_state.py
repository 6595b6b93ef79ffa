"""An account as its entries have it: a few of them say everything, however many there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any

from ..errors import UsageError, named
from ..privacy.composition import Filter
from .amounts import brief, read, written
from .charging import Protects, caps_from_dict, caps_to_dict, spent_to_dict, with_spent, within
from .entries import Transaction, read_fields, reading_entries
from .refusal import left_of, spent_of

EVERYBODY = "*"
PERIODS = {"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m", "year": "%Y"}
_SHOWN = 10
_ORDER = ("epsilon", "delta", "mu")


@dataclass(frozen=True)
class AccountState:
    """The budget of one data set: what was stated, what is spent and what is left."""

    dataset: str
    budget: Mapping[str, Fraction]
    protects: Protects
    caps: Filter | None
    """What is spent of each cap; None until the first release has fixed them."""
    limits: Mapping[str, Fraction] = field(default_factory=dict)
    """What each analyst may spend."""
    every: str | None = None
    period_limit: Fraction | None = None
    period: str | None = None
    """The period of the last reservation."""
    period_spent: Mapping[str, Any] | None = None
    closed: bool = False
    reserved: int = 0
    released: int = 0
    waiting: tuple[int, ...] = ()
    """The first entries that were reserved and whose release never came; they stay charged."""
    limits_spent: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What analysts with caps have spent of them."""

    def holder(self, analyst: str | None) -> str | None:
        """Whose cap an analyst spends from: their own, or the one of everybody else together."""
        if not self.limits or analyst in self.limits:
            return analyst
        if EVERYBODY in self.limits:
            return EVERYBODY
        raise UsageError(
            f"{named(self.dataset)} has caps for its analysts: {', '.join(map(named, self.limits))}. State analyst=."
        )

    def period_at(self, now: str) -> str | None:
        """The period that a time lies in, never before that of the last reservation."""
        if self.every is None:
            return None
        period = datetime.fromisoformat(now).strftime(PERIODS[self.every])
        return max(period, self.period or period)  # as texts they are in the order of time

    def period_caps(self, now: str, caps: Filter) -> Filter | None:
        """What is left of the period, which never adds to the whole."""
        if self.period_limit is None:
            return None
        fresh = within(caps, self.budget, self.period_limit)
        return with_spent(fresh, self.period_spent if self.period_at(now) == self.period else None)

    def _part(self, limit: Fraction, spent: Mapping[str, Any] | None) -> str:
        """What is spent of a part of the budget."""
        if self.caps is None:
            return f"at most {brief(limit)}, within the whole"
        return spent_of(with_spent(within(self.caps, self.budget, limit), spent))

    def to_dict(self) -> dict[str, Any]:
        """For people and programs: amounts are exact decimals."""
        return {
            "dataset": self.dataset,
            "budget": {name: written(value) for name, value in self.budget.items()},
            "protects": vars(self.protects),
            "caps": None if self.caps is None else caps_to_dict(self.caps),
            "spent": None if self.caps is None else spent_to_dict(self.caps),
            "analysts": {name: written(value) for name, value in self.limits.items()},
            "analysts_spent": dict(self.limits_spent),
            "period": None if self.every is None else {self.every: written(self.period_limit or Fraction(0))},
            "closed": self.closed,
            "reserved": self.reserved,
            "released": self.released,
            "waiting": list(self.waiting),
        }

    def __repr__(self) -> str:
        budget = ", ".join(f"{name} = {brief(value)}" for name, value in self.budget.items())
        lines = [f"{named(self.dataset)}: {budget}{', closed' if self.closed else ''}", f"  unit      {self.protects}"]
        if self.caps is None:
            lines.append("  spent     nothing; the first release sets the accounting method")
        else:
            lines += [f"  spent     {spent_of(self.caps)}", f"  left      {left_of(self.caps)}"]
        for name, limit in self.limits.items():
            lines.append(f"  analyst   {named(name)}: {self._part(limit, self.limits_spent.get(name))}")
        if self.every is not None and self.period_limit is not None:
            now = "" if self.period is None else f" in {self.period}"
            lines.append(f"  {'each ' + self.every:<9} {self._part(self.period_limit, self.period_spent)}{now}")
        lines.append(f"  releases  {self.released} of {self.reserved} that were charged")
        if self.reserved > self.released:
            some = ", ".join(map(str, self.waiting))
            lines.append(f"  charged, and never released: {self.reserved - self.released} (entries {some}, ...)")
        return "\n".join(lines).replace(", ...)", ")" if self.reserved - self.released <= _SHOWN else ", ...)")


def read_account(transaction: Transaction, dataset: str, counted: bool = False) -> AccountState:
    """The account of a data set; counted: with how many releases there were."""
    rows = transaction.run(
        "select what, number, body, digest from ellipsum_entries where dataset = ? "
        "and what in ('opened', 'fixed', 'closed') order by number",
        [dataset],
    )
    with reading_entries():
        said = {what: read_fields(*entry) for what, *entry in rows}
        if "opened" not in said:
            raise UsageError(_no_such(transaction, dataset))
        more = _counts(transaction, dataset) | _limits_spent(transaction, said["opened"]) if counted else {}
        return _account(said, last_charge(transaction, dataset) or {}, more)


def _no_such(transaction: Transaction, dataset: str) -> str:
    text = f"select dataset from ellipsum_entries where what = 'opened' order by dataset limit {_SHOWN}"
    names = [named(name) for (name,) in transaction.run(text)]
    others = f"It has {', '.join(names)}" if names else "It has none"
    return (
        f"this ledger has no data set {named(dataset)}. {others}; ellipsum ledger init opens the budget of a new one."
    )


def last_charge(transaction: Transaction, dataset: str, analyst: str | None = None) -> dict[str, Any] | None:
    """The fields of the last reservation, of one analyst where one is named."""
    whose, values = ("", [dataset]) if analyst is None else (" and analyst = ?", [dataset, analyst])
    rows = transaction.run(
        f"select number, body, digest from ellipsum_entries where dataset = ?{whose} and what = 'reserved' "
        "order by number desc limit 1",
        values,
    )
    return read_fields(*rows[0]) if rows else None


def _account(said: Mapping[str, Any], last: Mapping[str, Any], counts: Mapping[str, Any]) -> AccountState:
    opened = said["opened"]
    fixed = said.get("fixed", opened)
    caps = None if fixed["caps"] is None else with_spent(caps_from_dict(fixed["caps"]), last.get("spent"))
    every, limit = next(iter(opened["period"].items()), (None, None))
    return AccountState(
        opened["dataset"],
        {name: read(opened["budget"][name]) for name in _ORDER if name in opened["budget"]},
        Protects(**fixed["protects"]),
        caps,
        {name: read(value) for name, value in opened["analysts"].items()},
        every,
        None if limit is None else read(limit),
        last.get("period"),
        last.get("period_spent"),
        "closed" in said,
        **counts,
    )


def _limits_spent(transaction: Transaction, opened: Mapping[str, Any]) -> dict[str, Any]:
    last = {name: last_charge(transaction, opened["dataset"], name) for name in opened["analysts"]}
    return {"limits_spent": {name: entry["analyst_spent"] for name, entry in last.items() if entry is not None}}


def _counts(transaction: Transaction, dataset: str) -> dict[str, Any]:
    rows = transaction.run(
        "select what, count(*) from ellipsum_entries where dataset = ? and what in ('reserved', 'released') "
        "group by what",
        [dataset],
    )
    found = {what: int(count) for what, count in rows}
    reserved, released = found.get("reserved", 0), found.get("released", 0)
    waiting = _waiting(transaction, dataset) if reserved > released else ()
    return {"reserved": reserved, "released": released, "waiting": waiting}


def _waiting(transaction: Transaction, dataset: str) -> tuple[int, ...]:
    rows = transaction.run(
        "select number from ellipsum_entries r where dataset = ? and what = 'reserved' and not exists "
        f"(select 1 from ellipsum_entries s where s.of = r.number) order by number limit {_SHOWN}",
        [dataset],
    )
    return tuple(int(number) for (number,) in rows)
