"""The ledger: budgets that outlive the process, charged before anything is read [Q1]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

from ..errors import (
    MOST_WHOLE,
    BudgetRefused,
    DataError,
    UsageError,
    choice,
    named,
    whole,
)
from ..privacy.composition import Filter
from ..privacy.guarantee import NEIGHBORS, Budget
from ..request.people import People
from .account_state import EVERYBODY, PERIODS, Account, account_of, last_reserved
from .amounts import amount, written
from .chain import (
    ORIGIN,
    anchor_of,
    as_written,
    bad,
    canonical,
    digest,
    fields_of,
)
from .charging import (
    Ask,
    Protects,
    Step,
    caps_for,
    caps_to_dict,
    checked_caps,
    spent_to_dict,
    steps,
    with_spent,
    within,
)
from .idempotency import request_of, stored_release, under_key
from .names import checked_name, dataset_name
from .opening import open_store
from .refusal import refused
from .store import FORMAT, Store, Transaction

_SAME = "Nothing was read or spent."


@dataclass(frozen=True)
class Reserved:
    """A charge: its entry's number and digest, and the release that is stored under its key, where there is one."""

    number: int
    digest: str = ""
    stored: str | None = None


class Ledger:
    """Budgets of named data sets in a file (SQLite) or on a server (PostgreSQL), charged before data is read.

    url: a path, sqlite:///path or postgresql://user@host/name. `init` opens the budget of a data set; then every
    releasing call takes ledger= and dataset=.

    Guarantee [Q1]: all that was ever released of a data set through this ledger, together, is within its budget.
    """

    def __init__(self, url: str | Path) -> None:
        self._store: Store = open_store(url)

    # Opening and closing budgets ------------------------------------------------------------------------

    def init(
        self,
        dataset: str,
        *,
        epsilon: Any = None,
        delta: Any = None,
        mu: Any = None,
        caps: Mapping[str, Any] | None = None,
        neighbors: str | None = None,
        privacy_id: str | int | None = None,
        analyst_caps: Mapping[str, Any] | None = None,
        period: Mapping[str, Any] | None = None,
    ) -> Account:
        """Open the budget of a data set: epsilon and delta, or mu; the ledger itself is made where there is none.

        caps: {"mu": .., "epsilon": .. or several, "slack": ..} that lie within the budget; else the first release's law
            fixes them. neighbors, privacy_id: what every release must protect; else the first one fixes it.
        analyst_caps: {name: epsilon} ("*" for everybody else). period: {"day" | "week" | "month" | "year": epsilon}.
            Both lie within the whole: a new period adds nothing to it.
        """
        budget = _checked_budget(epsilon, delta, mu)
        stated = (
            checked_caps(budget, dict(_pairs("caps", caps))) if "mu" not in budget or caps else Filter(budget["mu"])
        )
        protects = _checked_protects(neighbors, privacy_id)
        limits = {
            checked_name("analyst", who): _limit(budget, cap) for who, cap in _pairs("analyst_caps", analyst_caps)
        }
        periods = {
            choice("period", every, tuple(PERIODS)): _limit(budget, cap) for every, cap in _pairs("period", period)
        }
        if len(periods) > 1:
            raise UsageError("state one period: day, week, month or year.")
        if stated is not None:
            for limit in (*limits.values(), *periods.values()):
                within(stated, budget, limit)
        fields = {
            "format": FORMAT,
            "budget": {name: written(value) for name, value in budget.items()},
            "caps": None if stated is None else caps_to_dict(stated),
            "protects": vars(protects),
            "analysts": {who: written(limit) for who, limit in limits.items()},
            "period": {every: written(limit) for every, limit in periods.items()},
        }
        self._store.create()
        with self._store.writing() as transaction:
            if transaction.run("select 1 from ellipsum_entries where dataset = ? limit 1", [dataset_name(dataset)]):
                raise UsageError(f"{named(dataset)} has a budget in this ledger already, and one is all that it has.")
            _append(transaction, "opened", dataset, fields)
            return account_of(transaction, dataset)

    def close(self, dataset: str) -> None:
        """Nothing more is released of this data set; what is left of its budget is left for ever."""
        with self._store.writing() as transaction:
            if not account_of(transaction, checked_name("dataset", dataset)).closed:
                _append(transaction, "closed", dataset, {})

    # Charging -------------------------------------------------------------------------------------------

    def reserve(self, dataset: str, ask: Ask, key: str | None = None, analyst: str | None = None) -> Reserved:
        """Charge a release, or refuse it; on disk when this returns. dataset: its name, maybe @ and a version."""
        for what, value in (("dataset", dataset), ("key", key), ("analyst", analyst)):
            if value is not None or what == "dataset":
                checked_name(what, value)
        ways = steps(ask)
        ways = chain([next(ways)], ways)  # the first is worked out before others have to wait
        try:
            return self._reserve(dataset, ask, ways, key, analyst)
        except _Misfit as misfit:
            found = misfit
        raise refused(found.whose, found.caps, ask)

    def _reserve(self, dataset: str, ask: Ask, ways: Iterator[Step], key: str | None, analyst: str | None) -> Reserved:
        name, _, version = dataset.partition("@")
        with self._store.writing() as transaction:
            account = account_of(transaction, name)
            with as_written():
                if key is not None and (earlier := under_key(transaction, name, key)) is not None:
                    stored = stored_release(transaction, earlier, request_of(ask, version))
                    return Reserved(int(earlier["number"]), stored=stored)
            if account.closed:
                raise BudgetRefused(f"the budget of {named(name)} is closed: nothing more is released of it. {_SAME}")
            now = _now()
            holder = account.holder(analyst)
            charged = _charged(transaction, account, ask, ways, holder, now)
            if charged.first is not None:
                _append(transaction, "fixed", name, charged.first)
            fields = {
                "note": ask.note,
                "guarantee": ask.guarantee.to_dict(),
                "stated": dict(ask.stated),
                "plan": _kept(transaction, ask.plan),
                **charged.fields,
                **({"version": version} if version else {}),
                **({"request": request_of(ask, version)} if key is not None else {}),
                **({"by": analyst} if analyst != holder and analyst is not None else {}),
            }
            return Reserved(*_append(transaction, "reserved", name, fields, analyst=holder, key=key))

    def settle(self, dataset: str, reserved: Reserved, text: str, keep: bool) -> None:
        """Enter that the release came: the digest of its JSON, and where it was given a key the JSON itself."""
        name = dataset.partition("@")[0]
        with self._store.writing() as transaction:
            held = transaction.run("select digest, dataset from ellipsum_entries where number = ?", [reserved.number])
            if held != [(reserved.digest, name)]:
                raise DataError(
                    "the ledger does not hold this charge any more: it was replaced by another, or an older copy."
                )
            number, _ = _append(transaction, "released", name, {"release": digest(text)}, of=reserved.number)
            if keep:
                transaction.run("insert into ellipsum_results (number, body) values (?, ?)", [number, text])

    # Looking --------------------------------------------------------------------------------------------

    def account(self, dataset: str) -> Account:
        """What is spent and left of a data set's budget."""
        with self._store.reading() as transaction:
            return account_of(transaction, checked_name("dataset", dataset), counted=True)

    def accounts(self) -> list[Account]:
        """The accounts of all data sets, by name."""
        with self._store.reading() as transaction:
            rows = transaction.run("select dataset from ellipsum_entries where what = 'opened' order by dataset")
            return [account_of(transaction, name, counted=True) for (name,) in rows]

    def history(self, dataset: str | None = None, last: int | None = None) -> list[dict[str, Any]]:
        """The entries in order, as dicts; the last so many."""
        where, values = ("", []) if dataset is None else (" where dataset = ?", [dataset])
        ending = "" if last is None else f" limit {whole('last', last)}"
        text = f"select number, body, digest from ellipsum_entries{where} order by number desc{ending}"
        with self._store.reading() as transaction:
            if dataset is not None:
                account_of(transaction, checked_name("dataset", dataset))
            rows = transaction.run(text, values)
        with as_written():
            return [{**fields_of(*row), "number": row[0], "digest": row[2]} for row in reversed(rows)]

    @property
    def anchor(self) -> str:
        """Stands for every entry so far: kept elsewhere, it tells later whether the ledger was rolled back."""
        with self._store.reading() as transaction:
            return anchor_of(*_head(transaction))

    def verify(self, anchor: str | None = None) -> str:
        """Follow the chain from the first entry to the last; the anchor at its end. A bad entry is a `DataError`.

        anchor: what `anchor` was at an earlier time; an error where the ledger no longer holds it [Q2].
        """
        from .checking import verify

        return verify(self._store, anchor)

    def export(self, kind: str = "jsonl") -> str:
        """The ledger for others: "jsonl", every entry; "dp_accounting", its events; "registry", deployments in YAML."""
        from .export import export

        with self._store.reading() as transaction:
            return export(transaction, kind)

    def __repr__(self) -> str:
        with as_written():
            return "\n".join([*map(repr, self.accounts()), f"anchor {self.anchor}"])


# Within one transaction ---------------------------------------------------------------------------------


class _Misfit(BudgetRefused):
    """A release that does not fit somebody's caps; what to say of it is worked out later, while nobody waits."""

    def __init__(self, whose: str, caps: Filter) -> None:
        super().__init__(whose)
        self.whose, self.caps = whose, caps


@dataclass(frozen=True)
class _Charged:
    fields: dict[str, Any]
    first: dict[str, Any] | None


def _charged(
    transaction: Transaction, account: Account, ask: Ask, ways: Iterator[Step], analyst: str | None, now: str
) -> _Charged:
    """What the reservation's entry says; a refusal where it does not fit the whole, the analyst or the period [Q1]."""
    protects = account.protects.with_(ask.protects, account.dataset)
    caps = account.caps or caps_for(account.budget, ask)
    with as_written():
        limits = _limits(transaction, account, caps, analyst, now)
    found = _fitting(limits, ways)
    fields: dict[str, Any] = {part: spent_to_dict(charged) for part, charged in found.items()}
    fields["charged"] = _difference(caps, found["spent"])
    if account.every is not None:
        fields["period"] = account.period_at(now)
    known = account.caps is not None and protects == account.protects
    return _Charged(fields, None if known else {"caps": caps_to_dict(caps), "protects": vars(protects)})


def _limits(
    transaction: Transaction, account: Account, caps: Filter, analyst: str | None, now: str
) -> dict[str, tuple[str, Filter]]:
    """Whose caps a release must fit, by the name under which an entry says what is spent of them."""
    parts = {"spent": (f"the budget of {named(account.dataset)}", caps)}
    if analyst is not None and analyst in account.limits:
        last = last_reserved(transaction, account.dataset, analyst)
        own = with_spent(within(caps, account.budget, account.limits[analyst]), last and last["analyst_spent"])
        whose = "everybody else ('*')" if analyst == EVERYBODY else f"the analyst {named(analyst)}"
        parts["analyst_spent"] = (whose, own)
    period = account.period_caps(now, caps)
    if period is not None:
        parts["period_spent"] = (f"this {account.every}", period)
    return parts


def _fitting(parts: Mapping[str, tuple[str, Filter]], ways: Iterator[Step]) -> dict[str, Filter]:
    """All parts with the release charged to each in the same way; the first way that fits."""
    misfit: _Misfit | None = None
    for step in ways:
        charged: dict[str, Filter] = {}
        for part, (whose, caps) in parts.items():
            try:
                charged[part] = step.charged_to(caps)
            except BudgetRefused:
                misfit = misfit or _Misfit(whose, caps)
                break
        else:
            return charged
    assert misfit is not None
    raise misfit


def _difference(before: Filter, after: Filter) -> dict[str, Any]:
    pure = tuple(new - old for new, old in zip(after.pure_spent, before.pure_spent, strict=True))
    squares, slack = after.squares_spent - before.squares_spent, after.slack_spent - before.slack_spent
    return spent_to_dict(replace(after, squares_spent=squares, pure_spent=pure, slack_spent=slack))


def _kept(transaction: Transaction, plan: str) -> str:
    """The digest of a plan, which is kept once."""
    own = digest(plan)
    text = "insert into ellipsum_plans (digest, body) values (?, ?) on conflict (digest) do nothing"
    transaction.run(text, [own, plan])
    return own


def _head(transaction: Transaction) -> tuple[int, str]:
    rows = transaction.run("select number, digest from ellipsum_entries order by number desc limit 1")
    with as_written():
        number, own = (int(rows[0][0]), str(rows[0][1])) if rows else (0, ORIGIN)
    if number >= MOST_WHOLE:
        raise bad(number, "no ledger is as long as that")
    return number, own


def _append(
    transaction: Transaction,
    what: str,
    dataset: str,
    fields: Mapping[str, Any],
    *,
    analyst: str | None = None,
    key: str | None = None,
    of: int | None = None,
) -> tuple[int, str]:
    """Write the next entry; its number and digest. Times are told, numbers decide the order [Q2]."""
    number, before = _head(transaction)
    known = {"analyst": analyst, "key": key, "of": of}
    body = canonical(
        {
            **fields,
            **{name: value for name, value in known.items() if value is not None},
            "number": number + 1,
            "before": before,
            "at": _now(),
            "what": what,
            "dataset": dataset,
        }
    )
    own = digest(body)
    columns = {"number": number + 1, "dataset": dataset, "what": what, **known, "body": body, "digest": own}
    present = {name: value for name, value in columns.items() if value is not None}
    marks = ", ".join("?" for _ in present)
    transaction.run(f"insert into ellipsum_entries ({', '.join(present)}) values ({marks})", list(present.values()))
    if transaction.run("select digest from ellipsum_entries where number = ?", [number + 1]) != [(own,)]:
        raise DataError("the ledger's database did not keep an entry that it took. Nothing was published.")
    return number + 1, own


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


# What somebody states -----------------------------------------------------------------------------------


def _checked_budget(epsilon: Any, delta: Any, mu: Any) -> dict[str, Fraction]:
    given = {"epsilon": epsilon, "delta": delta, "mu": mu}
    budget = {name: amount(name, value) for name, value in given.items() if value is not None}
    if set(budget) not in ({"epsilon", "delta"}, {"mu"}):
        raise UsageError("a data set's budget is epsilon with delta, or mu. State one of the two.")
    Budget(**{name: float(value) for name, value in budget.items()})
    return budget


def _checked_protects(neighbors: str | None, privacy_id: str | int | None) -> Protects:
    if neighbors is not None:
        choice("neighbors", neighbors, NEIGHBORS)
    if privacy_id is None:
        return Protects(neighbors)
    whose = People(privacy_id).identity
    return Protects(neighbors, "person", checked_name("privacy_id", whose) if isinstance(whose, str) else whose)


def _limit(budget: Mapping[str, Fraction], value: Any) -> Fraction:
    found = amount("a cap", value)
    whole = budget.get("epsilon", budget.get("mu", Fraction(0)))
    if not 0 < found <= whole:
        raise UsageError("a cap for an analyst or a period lies above 0 and within the whole budget.")
    return found


def _pairs(what: str, value: Any) -> list[tuple[Any, Any]]:
    if value is not None and not isinstance(value, Mapping):
        raise UsageError(f"{what} must be a dict of names and amounts, got {type(value).__name__}.")
    return list((value or {}).items())
