"""The ledger: budgets that outlive the process, charged before anything is read [Q1]."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from pathlib import Path
from typing import Any

from ..errors import UsageError, choice, named, whole
from ..privacy.budget import Budget
from ..privacy.composition import Filter
from ..privacy.guarantee import NEIGHBORS
from ..request.documentation import LEDGER
from ..request.people import People
from .account_state import PERIODS, AccountState, read_account
from .amounts import amount, written
from .charging import Protects, caps_to_dict, checked_caps, within
from .dataset_account import DatasetAccount
from .entries import FORMAT, append_entry, format_anchor, last_entry, read_fields, reading_entries
from .idempotency import check_dataset, check_name
from .stores import Store, open_store
from .verification import verify

_IN_MEMORY = "this session"
_has_no_ledger: ContextVar[bool] = ContextVar("has no ledger", default=False)


class Ledger:
    """Budgets of named data sets in a file (SQLite) or on a server (PostgreSQL), charged before data is read.

    url: a path, sqlite:///path or postgresql://user@host/name. `init` opens the budget of a data set; then every
    releasing call takes `ledger.dataset(name)` as its ledger.

    Guarantee [Q1]: all that was ever released of a data set through this ledger, together, is within its budget.
    """

    def __init__(self, url: str | Path) -> None:
        self._store: Store = open_store(url)

    @staticmethod
    def in_memory(
        *,
        epsilon: Any = None,
        delta: Any = None,
        mu: Any = None,
        neighbors: str | None = None,
        privacy_id: str | int | None = None,
    ) -> DatasetAccount:
        """A budget that several calls share, without a file: it ends with the process.

        Pass it as `ledger` to every call on the same data. It refuses what does not fit, and prints what is left.
        neighbors, privacy_id: what every release must protect; else the first one fixes it.
        """
        from .sqlite_store import MemoryStore

        ledger = Ledger.__new__(Ledger)
        ledger._store = MemoryStore()
        ledger.init(_IN_MEMORY, epsilon=epsilon, delta=delta, mu=mu, neighbors=neighbors, privacy_id=privacy_id)
        return ledger.dataset(_IN_MEMORY)

    def dataset(self, name: str, *, analyst: str | None = None) -> DatasetAccount:
        """The account of a data set, which calls take as `ledger`. name: maybe with @ and a version of the data."""
        return DatasetAccount(self._store, name, analyst)

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
    ) -> AccountState:
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
        limits = {check_name("analyst", who): _limit(budget, cap) for who, cap in _pairs("analyst_caps", analyst_caps)}
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
            if transaction.run("select 1 from ellipsum_entries where dataset = ? limit 1", [check_dataset(dataset)]):
                raise UsageError(f"{named(dataset)} has a budget in this ledger already, and one is all that it has.")
            append_entry(transaction, "opened", dataset, fields)
            return read_account(transaction, dataset)

    def close(self, dataset: str) -> None:
        """Nothing more is released of this data set; what is left of its budget is left for ever."""
        with self._store.writing() as transaction:
            if not read_account(transaction, check_name("dataset", dataset)).closed:
                append_entry(transaction, "closed", dataset, {})

    # Looking --------------------------------------------------------------------------------------------

    def account(self, dataset: str) -> AccountState:
        """What is spent and left of a data set's budget."""
        with self._store.reading() as transaction:
            return read_account(transaction, check_name("dataset", dataset), counted=True)

    def accounts(self) -> list[AccountState]:
        """The accounts of all data sets, by name."""
        with self._store.reading() as transaction:
            rows = transaction.run("select dataset from ellipsum_entries where what = 'opened' order by dataset")
            return [read_account(transaction, name, counted=True) for (name,) in rows]

    def history(self, dataset: str | None = None, last: int | None = None) -> list[dict[str, Any]]:
        """The entries in order, as dicts; the last so many."""
        where, values = ("", []) if dataset is None else (" where dataset = ?", [dataset])
        ending = "" if last is None else f" limit {whole('last', last)}"
        text = f"select number, body, digest from ellipsum_entries{where} order by number desc{ending}"
        with self._store.reading() as transaction:
            if dataset is not None:
                read_account(transaction, check_name("dataset", dataset))
            rows = transaction.run(text, values)
        with reading_entries():
            return [{**read_fields(*row), "number": row[0], "digest": row[2]} for row in reversed(rows)]

    @property
    def anchor(self) -> str:
        """Stands for every entry so far: kept elsewhere, it tells later whether the ledger was rolled back."""
        with self._store.reading() as transaction:
            return format_anchor(*last_entry(transaction))

    def verify(self, anchor: str | None = None) -> str:
        """Follow the chain from the first entry to the last; the anchor at its end. A bad entry is a `DataError`.

        anchor: what `anchor` was at an earlier time; an error where the ledger no longer holds it [Q2].
        """
        return verify(self._store, anchor)

    def export(self, kind: str = "jsonl") -> str:
        """The ledger for others: "jsonl", every entry; "dp_accounting", its events; "registry", deployments in YAML."""
        from .export import export

        with self._store.reading() as transaction:
            return export(transaction, kind)

    def __repr__(self) -> str:
        with reading_entries():
            return "\n".join([*map(repr, self.accounts()), f"anchor {self.anchor}"])


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
    return Protects(neighbors, "person", check_name("privacy_id", whose) if isinstance(whose, str) else whose)


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


# The ledger of a call -----------------------------------------------------------------------------------


@contextmanager
def uncharged() -> Iterator[None]:
    """Without the environment's ledger: releases of made-up data are charged to nobody."""
    token = _has_no_ledger.set(True)
    try:
        yield
    finally:
        _has_no_ledger.reset(token)


def account_for_call(
    ledger: DatasetAccount | Ledger | str | Path | None,
    dataset: str | None = None,
    request_id: str | None = None,
    analyst: str | None = None,
) -> DatasetAccount | None:
    """The account behind the arguments of a call; None where it has no ledger, and the environment names none."""
    if isinstance(ledger, DatasetAccount):
        if dataset is not None or analyst is not None:
            raise UsageError("this ledger is the account of a data set already. Leave out dataset and analyst.")
        return ledger.for_request(request_id)
    given = {"dataset": dataset, "key": request_id, "analyst": analyst}
    for name, value in given.items():
        if value is not None:
            check_name(name, value)
    if ledger is None:
        ledger = None if _has_no_ledger.get() else os.environ.get(LEDGER) or None
    if ledger is None:
        stray = [name for name, value in given.items() if value is not None]
        if stray:
            raise UsageError(f"{' and '.join(stray)} need{'s' * (len(stray) == 1)} ledger, where budgets are kept.")
        return None
    if dataset is None:
        raise UsageError("dataset is missing. Pass the name under which the ledger keeps this data's budget.")
    if not isinstance(ledger, (Ledger, str, Path)):
        raise UsageError(f"ledger must be a Ledger, or the address of one, got {type(ledger).__name__}.")
    opened = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    return opened.dataset(dataset, analyst=analyst).for_request(request_id)
