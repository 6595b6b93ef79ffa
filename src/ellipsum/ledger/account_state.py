"""The state of an account, read from a few of its entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from typing import Any

from ..errors import UsageError, named
from ..privacy.composition import Filter
from .charging import (
    Amounts,
    PrivacyUnit,
    caps_from_dict,
    caps_to_dict,
    caps_within,
    describe_remaining,
    describe_spent,
    exact_text,
    read_amount,
    short_text,
    spent_to_dict,
    with_spent,
)
from .entries import Entry, Transaction, read_fields, reading_entries

EVERYBODY = "*"
PERIODS = {"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m", "year": "%Y"}
_SHOWN = 10
_ORDER = ("epsilon", "delta", "mu")


@dataclass(frozen=True)
class AccountState:
    """The budget of one data set, its limits, and the spent amounts."""

    dataset: str
    budget: Mapping[str, Fraction]
    privacy_unit: PrivacyUnit
    caps: Filter | None
    """The caps with their spent amounts; None until the first release sets them."""
    limits: Mapping[str, Fraction] = field(default_factory=dict)
    """The limit of each analyst."""
    every: str | None = None
    period_limit: Fraction | None = None
    period: str | None = None
    """The period of the last charge."""
    period_spent: Amounts | None = None
    closed: bool = False
    reserved: int = 0
    released: int = 0
    waiting: tuple[int, ...] = ()
    """The first entries that were charged and not completed; they stay charged."""
    limits_spent: Mapping[str, Amounts] = field(default_factory=dict)
    """Amounts that analysts with limits have spent."""

    def holder(self, analyst: str | None) -> str | None:
        """The name of the limit that an analyst spends from: their own, or the common one of all others."""
        if not self.limits or analyst in self.limits:
            return analyst
        if EVERYBODY in self.limits:
            return EVERYBODY
        limit_names = ", ".join(map(named, self.limits))
        raise UsageError(
            f"{named(self.dataset)} has limits for its analysts: {limit_names}. Pass analyst= with one of them."
        )

    def period_at(self, now: str) -> str | None:
        """The period of a time, never before that of the last charge."""
        if self.every is None:
            return None
        period = datetime.fromisoformat(now).strftime(PERIODS[self.every])
        return max(period, self.period or period)  # The order of these texts is the order of time.

    def period_caps(self, now: str, caps: Filter) -> Filter | None:
        """The caps of the present period with what is spent of them. A period never adds to the whole budget."""
        if self.period_limit is None:
            return None
        fresh = caps_within(caps, self.budget, self.period_limit)
        return with_spent(fresh, self.period_spent if self.period_at(now) == self.period else None)

    def to_dict(self) -> dict[str, Any]:
        """The account as JSON; amounts are exact decimals."""
        return {
            "dataset": self.dataset,
            "budget": {name: exact_text(value) for name, value in self.budget.items()},
            "privacy_unit": vars(self.privacy_unit),
            "caps": None if self.caps is None else caps_to_dict(self.caps),
            "spent": None if self.caps is None else spent_to_dict(self.caps),
            "analysts": {name: exact_text(value) for name, value in self.limits.items()},
            "analysts_spent": dict(self.limits_spent),
            "period": None if self.every is None else {self.every: exact_text(self.period_limit or Fraction(0))},
            "closed": self.closed,
            "reserved": self.reserved,
            "released": self.released,
            "waiting": list(self.waiting),
        }

    def __repr__(self) -> str:
        budget = ", ".join(f"{name} = {short_text(value)}" for name, value in self.budget.items())
        facts = [("privacy unit", str(self.privacy_unit))]
        if self.caps is None:
            facts.append(("spent", "0 (accounting method: set by the first release)"))
        else:
            facts += [("spent", describe_spent(self.caps)), ("remaining", describe_remaining(self.caps))]
        for name, limit in self.limits.items():
            facts.append((f"analyst {named(name)}", self._describe_part(limit, self.limits_spent.get(name))))
        if self.every is not None and self.period_limit is not None:
            now = "" if self.period is None else f" in {self.period}"
            facts.append((f"each {self.every}", self._describe_part(self.period_limit, self.period_spent) + now))
        facts.append(("releases", self._describe_releases()))
        width = max(len(title) for title, _ in facts)
        lines = [f"  {title:<{width}}  {text}" for title, text in facts]
        return "\n".join([f"{named(self.dataset)}: {budget}{' (closed)' if self.closed else ''}", *lines])

    def _describe_part(self, limit: Fraction, spent: Amounts | None) -> str:
        """The spent part of an analyst's or a period's limit."""
        if self.caps is None:
            return f"at most {short_text(limit)}"
        return describe_spent(with_spent(caps_within(self.caps, self.budget, limit), spent))

    def _describe_releases(self) -> str:
        incomplete = self.reserved - self.released
        text = f"{self.released} completed, {incomplete} charged but not completed"
        more = ", ..." if incomplete > len(self.waiting) else ""
        return text if not incomplete else f"{text} (entries {', '.join(map(str, self.waiting))}{more})"


def read_account(transaction: Transaction, dataset: str, counted: bool = False) -> AccountState:
    """The account of a data set; counted: also the number of releases, and the amounts that analysts have spent."""
    rows = transaction.run(
        "select what, number, body, digest from ellipsum_entries where dataset = ? "
        "and what in ('created', 'accounting set', 'closed') order by number",
        [dataset],
    )
    with reading_entries():
        entries = {what: read_fields(*entry) for what, *entry in rows}
        if "created" not in entries:
            names = ", ".join(map(named, dataset_names(transaction)[:_SHOWN]))
            raise UsageError(
                f"The ledger has no data set {named(dataset)}. It has {names or 'none'}. Create its budget with: "
                "ellipsum ledger init."
            )
        created, last = entries["created"], last_charge(transaction, dataset) or {}
        accounting = entries.get("accounting set", created)
        caps = None if accounting["caps"] is None else caps_from_dict(accounting["caps"])
        every, limit = next(iter(created["period"].items()), (None, None))
        account = AccountState(
            created["dataset"],
            {name: read_amount(created["budget"][name]) for name in _ORDER if name in created["budget"]},
            PrivacyUnit(**accounting["privacy_unit"]),
            None if caps is None else with_spent(caps, last.get("spent")),
            {name: read_amount(value) for name, value in created["analysts"].items()},
            every,
            None if limit is None else read_amount(limit),
            last.get("period"),
            last.get("period_spent"),
            "closed" in entries,
        )
        if not counted:
            return account
        spent = {name: last_charge(transaction, dataset, name) for name in account.limits}
        reserved, released, waiting = _count(transaction, dataset)
        return replace(
            account,
            reserved=reserved,
            released=released,
            waiting=waiting,
            limits_spent={name: entry["analyst_spent"] for name, entry in spent.items() if entry is not None},
        )


def dataset_names(transaction: Transaction) -> list[str]:
    rows = transaction.run("select dataset from ellipsum_entries where what = 'created' order by dataset")
    return [name for (name,) in rows]


def last_charge(transaction: Transaction, dataset: str, analyst: str | None = None) -> Entry | None:
    """The fields of the last charge, or of the last charge of one analyst."""
    condition, values = ("", [dataset]) if analyst is None else (" and analyst = ?", [dataset, analyst])
    rows = transaction.run(
        f"select number, body, digest from ellipsum_entries where dataset = ?{condition} and what = 'reserved' "
        "order by number desc limit 1",
        values,
    )
    return read_fields(*rows[0]) if rows else None


def _count(transaction: Transaction, dataset: str) -> tuple[int, int, tuple[int, ...]]:
    """The numbers of releases that were charged and completed, and the first that were not completed."""
    rows = transaction.run(
        "select what, count(*) from ellipsum_entries where dataset = ? and what in ('reserved', 'released') "
        "group by what",
        [dataset],
    )
    counts = {what: int(count) for what, count in rows}
    reserved, released = counts.get("reserved", 0), counts.get("released", 0)
    if reserved == released:
        return reserved, released, ()
    waiting = transaction.run(
        "select number from ellipsum_entries r where dataset = ? and what = 'reserved' and not exists "
        f"(select 1 from ellipsum_entries s where s.of = r.number) order by number limit {_SHOWN}",
        [dataset],
    )
    return reserved, released, tuple(int(number) for (number,) in waiting)
