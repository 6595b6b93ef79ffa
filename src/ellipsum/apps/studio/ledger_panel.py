"""The ledger beside a form: what is left of a data set's budget, and opening one."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ... import Ledger, UsageError
from ...ledger import AccountState
from ...ledger.charging import describe_remaining, describe_spent
from ...sources.sql import has_password

_PASSWORD = "a ledger's address must not contain a password. Use PGPASSWORD, ~/.pgpass or a service file."


@dataclass(frozen=True)
class Balance:
    """What a ledger says of a data set, in words; share: how much of the budget is spent, from 0 to 1."""

    dataset: str
    budget: str
    spent: str
    left: str
    share: float
    protects: str
    releases: str


def balance(address: str, dataset: str) -> Balance:
    """The balance of a data set."""
    return _balance(_open_ledger(address).account(dataset.partition("@")[0]))


def data_sets(address: str) -> list[str]:
    """The data sets that a ledger has budgets of."""
    return [account.dataset for account in _open_ledger(address).accounts()]


def open_budget(address: str, dataset: str, epsilon: str, delta: str) -> Balance:
    """Open the budget of a data set; the ledger is made where there is none."""
    if not dataset:
        raise UsageError("dataset is missing. Type its name.")
    for name, text in (("epsilon", epsilon), ("delta", delta)):
        if not text:
            raise UsageError(f"The {name} of the whole budget is missing.")
    return _balance(_open_ledger(address).init(dataset, epsilon=epsilon, delta=delta))


def _open_ledger(address: str) -> Ledger:
    if has_password(address):
        raise UsageError(_PASSWORD)
    return Ledger(address)


def _balance(account: AccountState) -> Balance:
    caps = account.caps
    budget = ", ".join(f"{name} {float(value):g}" for name, value in account.budget.items())
    return Balance(
        account.dataset,
        budget + (" (closed)" if account.closed else ""),
        "nothing yet" if caps is None else describe_spent(caps),
        "all of it" if caps is None else describe_remaining(caps),
        _share(account),
        str(account.privacy_unit),
        f"{account.released} completed, {account.reserved - account.released} charged but not completed",
    )


def _share(account: AccountState) -> float:
    """The spent share of the cap that is used up most."""
    caps = account.caps
    if caps is None:
        return 0.0
    pairs = [(spent, Fraction(cap)) for spent, cap in zip(caps.pure_spent, caps.pure, strict=True)]
    pairs += [(caps.squares_spent, Fraction(caps.mu) ** 2), (caps.slack_spent, Fraction(caps.slack))]
    return max((float(spent / cap) for spent, cap in pairs if cap), default=0.0)
