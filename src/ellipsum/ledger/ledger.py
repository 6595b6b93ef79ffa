"""The ledger: budgets that outlive the process, charged before anything is read [Q1]."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from fractions import Fraction
from pathlib import Path

from ..errors import UsageError, choice, named, whole
from ..privacy.budget import Budget
from ..privacy.guarantee import NEIGHBORS
from ..request.documentation import LEDGER
from ..request.people import People
from .account_state import PERIODS, AccountState, dataset_names, read_account
from .charging import Amount, PrivacyUnit, caps_to_dict, caps_within, check_caps, exact_text, parse_amount
from .dataset_account import DatasetAccount, check_name
from .entries import FORMAT, Entry, Store, append_entry, format_anchor, last_entry, read_fields, reading_entries
from .verification import verify

_IN_MEMORY = "this session"
_ignores_environment: ContextVar[bool] = ContextVar("ignores ELLIPSUM_LEDGER", default=False)


class Ledger:
    """Budgets of data sets in a file (SQLite) or on a server (PostgreSQL), charged before data is read.

    `init` creates the budget of a data set. Then every releasing call takes ``ledger.dataset(name)`` as its `ledger`,
    and is refused where it does not fit.

    Parameters
    ----------
    url : str or Path
        A path, ``sqlite:///path`` or ``postgresql://user@host/name``.

    Raises
    ------
    UsageError
        If the address is not one of these.

    Notes
    -----
    Privacy proof: [Q1]. All releases of a data set through this ledger, together, are within its budget. [Q2] says what
    `verify` detects, and [Q3] why returning a stored release is free.

    Examples
    --------
    >>> import ellipsum as es
    >>> ledger = es.Ledger("budget.db")
    >>> account = ledger.init("survey", epsilon=1, delta=1e-6)
    >>> release = es.mean([[1.0], [3.0]], es.Box(0, 5), epsilon=0.5, delta=0, ledger=ledger.dataset("survey"))
    >>> ledger.dataset("survey").remaining
    {'epsilon': 0.5, 'delta': 1e-06}
    """

    def __init__(self, url: str | Path) -> None:
        self._store = _open_store(url)

    @staticmethod
    def in_memory(
        *,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        mu: Amount | None = None,
        neighbors: str | None = None,
        privacy_id: str | int | None = None,
    ) -> DatasetAccount:
        """A budget that several calls share without a file; it ends with the process.

        Pass it as `ledger` to every call on the same data. It refuses what does not fit. Print it, or use its
        `remaining`, to see what is left.

        Parameters
        ----------
        epsilon, delta, mu, neighbors, privacy_id
            As in `init`.

        Examples
        --------
        >>> import ellipsum as es
        >>> budget = es.Ledger.in_memory(epsilon=1, delta=1e-6)
        >>> release = es.mean([[1.0], [3.0]], es.Box(0, 5), epsilon=0.4, delta=0, ledger=budget)
        >>> print(budget)
        'this session': epsilon = 1, delta = 1e-06
          privacy unit  replace one row
          spent         epsilon = 0.4 of 1, delta = 0 of 1e-06
          remaining     epsilon = 0.6, delta = 1e-06
          releases      1 completed, 0 charged but not completed
        """
        from .sqlite_store import MemoryStore

        ledger = Ledger.__new__(Ledger)
        ledger._store = MemoryStore()
        ledger.init(_IN_MEMORY, epsilon=epsilon, delta=delta, mu=mu, neighbors=neighbors, privacy_id=privacy_id)
        return ledger.dataset(_IN_MEMORY)

    def dataset(self, name: str, *, analyst: str | None = None) -> DatasetAccount:
        """The account of a data set, which calls take as `ledger`. The name may end in @ and a version of the data."""
        return DatasetAccount(self._store, name, analyst)

    def init(
        self,
        dataset: str,
        *,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        mu: Amount | None = None,
        caps: Mapping[str, Amount | Sequence[Amount]] | None = None,
        neighbors: str | None = None,
        privacy_id: str | int | None = None,
        analyst_caps: Mapping[str, Amount] | None = None,
        period: Mapping[str, Amount] | None = None,
    ) -> AccountState:
        """Create the budget of a data set, and the ledger itself where there is none.

        Parameters
        ----------
        dataset : str
            The name of the data set.
        epsilon, delta : float or str
            The whole budget. Decimals are added exactly as typed.
        mu : float or str
            The whole budget in Gaussian DP, instead of epsilon and delta.
        caps : dict, optional
            ``{"mu": ..., "epsilon": ..., "delta": ...}`` within the budget: how much may be spent on Gaussian releases,
            on pure releases (a number, or a list of separate caps), and as failure probabilities. By default the first
            release sets them.
        neighbors : {"replace", "add_remove"}, optional
            The neighboring relation of all releases. By default the first release sets it.
        privacy_id : str or int, optional
            The column that identifies people in all releases. By default the first release sets it.
        analyst_caps : dict, optional
            ``{name: epsilon}`` (or mu): limits of analysts within the whole; ``"*"`` is everybody else together.
        period : dict, optional
            ``{"day" | "week" | "month" | "year": epsilon}``: a limit for each period within the whole.

        Returns
        -------
        AccountState
            The new account.

        Raises
        ------
        UsageError
            If the data set has a budget already, or an amount is invalid.
        """
        budget = _check_budget(epsilon, delta, mu)
        limits = {check_name("analyst", who): _limit(budget, cap) for who, cap in _pairs("analyst_caps", analyst_caps)}
        periods = {
            choice("period", every, tuple(PERIODS)): _limit(budget, cap) for every, cap in _pairs("period", period)
        }
        if len(periods) > 1:
            raise UsageError("Pass one period: day, week, month or year.")
        stated = check_caps(budget, dict(_pairs("caps", caps)))
        if stated is not None:
            for limit in (*limits.values(), *periods.values()):
                caps_within(stated, budget, limit)
        fields = {
            "format": FORMAT,
            "budget": {name: exact_text(value) for name, value in budget.items()},
            "caps": None if stated is None else caps_to_dict(stated),
            "privacy_unit": vars(_check_unit(neighbors, privacy_id)),
            "analysts": {who: exact_text(limit) for who, limit in limits.items()},
            "period": {every: exact_text(limit) for every, limit in periods.items()},
        }
        if "@" in check_name("dataset", dataset):
            raise UsageError("dataset must not contain @: it separates the name from a version, as in survey@2026.")
        self._store.create()
        with self._store.writing() as transaction:
            if transaction.run("select 1 from ellipsum_entries where dataset = ? limit 1", [dataset]):
                raise UsageError(f"{named(dataset)} has a budget in this ledger already. Use another name.")
            append_entry(transaction, "created", dataset, fields)
            return read_account(transaction, dataset)

    def close(self, dataset: str) -> None:
        """End the budget of a data set: nothing more is released, whatever is left."""
        with self._store.writing() as transaction:
            if not read_account(transaction, check_name("dataset", dataset)).closed:
                append_entry(transaction, "closed", dataset, {})

    def account(self, dataset: str) -> AccountState:
        """What is spent and left of a data set's budget."""
        with self._store.reading() as transaction:
            return read_account(transaction, check_name("dataset", dataset), counted=True)

    def accounts(self) -> list[AccountState]:
        """The accounts of all data sets, by name."""
        with self._store.reading() as transaction:
            return [read_account(transaction, name, counted=True) for name in dataset_names(transaction)]

    def history(self, dataset: str | None = None, last: int | None = None) -> list[Entry]:
        """The entries in order, as dicts; of one data set, or the last few."""
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
        """The checkpoint hash of all entries. Kept elsewhere, it shows later whether the ledger was rolled back."""
        with self._store.reading() as transaction:
            return format_anchor(*last_entry(transaction))

    def verify(self, anchor: str | None = None) -> str:
        """Check every entry and all sums.

        Parameters
        ----------
        anchor : str, optional
            An earlier `anchor`, which the ledger must still contain.

        Returns
        -------
        str
            The anchor at the end.

        Raises
        ------
        DataError
            If an entry was changed or is missing; the message names the first bad entry.

        Notes
        -----
        Proof: [Q2].
        """
        return verify(self._store, anchor)

    def export(self, kind: str = "jsonl") -> str:
        """The ledger for other tools.

        Parameters
        ----------
        kind : {"jsonl", "dp_accounting", "registry"}, default "jsonl"
            Every entry; the events of Google's dp_accounting; or drafts for the public registry of deployments, in
            YAML.
        """
        from .export import export

        with self._store.reading() as transaction:
            return export(transaction, kind)

    def __repr__(self) -> str:
        with reading_entries():
            return "\n".join([*map(repr, self.accounts()), f"anchor {self.anchor}"])


def _open_store(url: str | Path) -> Store:
    """The database at an address."""
    address = str(url) if isinstance(url, Path) else url
    with suppress(UnicodeEncodeError):
        if isinstance(address, str) and address and b"\0" not in os.fsencode(address):
            scheme, mark, rest = address.partition("://")
            if not mark or (scheme == "sqlite" and rest.startswith("/") and len(rest) > 1):
                from .sqlite_store import SqliteStore

                return SqliteStore(rest[1:] if mark else os.path.expanduser(address))
            if scheme in ("postgresql", "postgres"):
                from .postgresql_store import PostgresqlStore

                return PostgresqlStore(address)
    raise UsageError("A ledger is a path, sqlite:///path or postgresql://user@host/name.")


def _check_budget(epsilon: Amount | None, delta: Amount | None, mu: Amount | None) -> dict[str, Fraction]:
    amounts = {"epsilon": epsilon, "delta": delta, "mu": mu}
    budget = {name: parse_amount(name, value) for name, value in amounts.items() if value is not None}
    if set(budget) not in ({"epsilon", "delta"}, {"mu"}):
        raise UsageError("The budget of a data set is epsilon= with delta=, or mu=. Pass one of the two.")
    Budget(**{name: float(value) for name, value in budget.items()})
    return budget


def _check_unit(neighbors: str | None, privacy_id: str | int | None) -> PrivacyUnit:
    if neighbors is not None:
        choice("neighbors", neighbors, NEIGHBORS)
    if privacy_id is None:
        return PrivacyUnit(neighbors)
    column = People(privacy_id).identity
    return PrivacyUnit(neighbors, "person", check_name("privacy_id", column) if isinstance(column, str) else column)


def _limit(budget: Mapping[str, Fraction], value: Amount) -> Fraction:
    limit = parse_amount("a limit", value)
    if not 0 < limit <= budget.get("epsilon", budget.get("mu", Fraction(0))):
        raise UsageError("The limit of an analyst or a period must be above 0 and at most the whole budget.")
    return limit


def _pairs(what: str, value: object) -> list[tuple[str, Amount]]:
    if value is not None and not isinstance(value, Mapping):
        raise UsageError(f"{what} must be a dict of names and amounts, got {type(value).__name__}.")
    return list((value or {}).items())


@contextmanager
def uncharged() -> Iterator[None]:
    """Ignore ELLIPSUM_LEDGER: releases of made-up data are not charged."""
    token = _ignores_environment.set(True)
    try:
        yield
    finally:
        _ignores_environment.reset(token)


def account_for_call(ledger: DatasetAccount | None, request_id: str | None = None) -> DatasetAccount | None:
    """The account behind the arguments of a call; None where there is none and the environment requires none."""
    if ledger is not None:
        return ledger.for_request(request_id)
    if os.environ.get(LEDGER) and not _ignores_environment.get():
        raise UsageError(
            f"Missing argument ledger: {LEDGER} is set, so every release must be charged. "
            "Pass ledger=es.Ledger(address).dataset(name), the account of this data."
        )
    if request_id is not None:
        raise UsageError("request_id needs ledger=, since the ledger stores the release.")
    return None
