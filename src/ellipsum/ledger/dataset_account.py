"""The account that a call is charged to: a data set of a ledger, and the analyst who asks [Q1]."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from ..errors import BudgetRefused, DataError, EllipsumError, named
from ..privacy.composition import Filter
from .account_state import EVERYBODY, AccountState, last_charge, read_account
from .charging import (
    ChargeRequest,
    ChargeStep,
    caps_for,
    caps_to_dict,
    spent_to_dict,
    ways_to_charge,
    with_spent,
    within,
)
from .entries import Transaction, append_entry, digest, read_clock, reading_entries
from .idempotency import check_name, digest_request, find_request, load_release
from .refusal import DoesNotFit, explain
from .stores import Store

_UNSETTLED = (
    "this release is charged, but the ledger could not be told that it came, so it shows it as never released, and its "
    "key, if it had one, does not return it. Keep the release: "
)


class LedgerWarning(UserWarning):
    """A release was charged and made, and the ledger could not be told."""


@dataclass(frozen=True)
class LedgerCharge:
    """The number and digest of a charge's entry, and the release stored under its request ID, where there is one."""

    number: int
    digest: str = ""
    stored: str | None = None


@dataclass(frozen=True, repr=False)
class DatasetAccount:
    """The budget of one data set, as one analyst spends it: what a call takes as `ledger`.

    `Ledger.dataset` and `Ledger.in_memory` make it. It prints what is spent and what is left.
    """

    store: Store
    dataset: str
    """The name of the data set, to which @ and a version of the data may be added."""
    analyst: str | None = None
    request_id: str | None = None

    def __post_init__(self) -> None:
        check_name("dataset", self.dataset)
        for name, value in (("key", self.request_id), ("analyst", self.analyst)):
            if value is not None:
                check_name(name, value)

    @property
    def name(self) -> str:
        """The data set without its version."""
        return self.dataset.partition("@")[0]

    @property
    def state(self) -> AccountState:
        """What is spent and left of the budget."""
        with self.store.reading() as transaction:
            return read_account(transaction, self.name, counted=True)

    def __repr__(self) -> str:
        with reading_entries():
            return repr(self.state)

    def for_request(self, request_id: str | None) -> DatasetAccount:
        """The account for one request: the same request_id again returns the stored release [Q3]."""
        return replace(self, request_id=request_id)

    def reserve(self, request: ChargeRequest) -> LedgerCharge:
        """Charge a release, or refuse it; on disk when this returns."""
        ways = ways_to_charge(request)
        ways = chain([next(ways)], ways)  # the first is worked out before other processes have to wait
        try:
            return self._reserve(request, ways)
        except DoesNotFit as error:
            limits = error.limits
        raise explain(limits, request)  # outside the transaction: it takes a while

    def _reserve(self, request: ChargeRequest, ways: Iterator[ChargeStep]) -> LedgerCharge:
        name, _, version = self.dataset.partition("@")
        with self.store.writing() as transaction:
            account = read_account(transaction, name)
            with reading_entries():
                earlier = None if self.request_id is None else find_request(transaction, name, self.request_id)
                if earlier is not None:
                    stored = load_release(transaction, earlier, digest_request(request, version))
                    return LedgerCharge(int(earlier["number"]), stored=stored)
            if account.closed:
                raise BudgetRefused(
                    f"the budget of {named(name)} is closed: nothing more is released of it. Nothing was read or spent."
                )
            now = read_clock()
            holder = account.holder(self.analyst)
            charge = _charge(transaction, account, request, ways, holder, now)
            if charge.fixed is not None:
                append_entry(transaction, "fixed", name, charge.fixed)
            fields = {
                "note": request.note,
                "guarantee": request.guarantee.to_dict(),
                "stated": dict(request.stated),
                "plan": _store_plan(transaction, request.plan),
                **charge.fields,
                **({"version": version} if version else {}),
                **({"request": digest_request(request, version)} if self.request_id is not None else {}),
                **({"by": self.analyst} if self.analyst not in (None, holder) else {}),
            }
            entry = append_entry(transaction, "reserved", name, fields, analyst=holder, key=self.request_id)
            return LedgerCharge(*entry)

    def enter(self, charge: LedgerCharge, text: str) -> None:
        """Enter that the release came: the digest of its JSON, and with a request ID the JSON itself."""
        with self.store.writing() as transaction:
            held = transaction.run("select digest, dataset from ellipsum_entries where number = ?", [charge.number])
            if held != [(charge.digest, self.name)]:
                raise DataError(
                    "the ledger does not hold this charge any more: it was replaced by another, or an older copy."
                )
            number, _ = append_entry(transaction, "released", self.name, {"release": digest(text)}, of=charge.number)
            if self.request_id is not None:
                transaction.run("insert into ellipsum_results (number, body) values (?, ?)", [number, text])

    def settle(self, charge: LedgerCharge, text: str) -> None:
        """`enter` the release, which is paid for: where that fails it is given out all the same, with a warning."""
        try:
            self.enter(charge, text)
        except EllipsumError as error:
            warnings.warn(LedgerWarning(f"{_UNSETTLED}{error}"), stacklevel=4)


# Within one transaction ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Charge:
    fields: dict[str, Any]
    fixed: dict[str, Any] | None
    """What the first release fixes: the caps, and whom they protect."""


def _charge(
    transaction: Transaction,
    account: AccountState,
    request: ChargeRequest,
    ways: Iterator[ChargeStep],
    analyst: str | None,
    now: str,
) -> _Charge:
    """What the entry of a charge says; a refusal if it exceeds the budget, the analyst's or the period's [Q1]."""
    protects = account.protects.fill_in(request.protects, account.dataset)
    caps = account.caps or caps_for(account.budget, request)
    with reading_entries():
        limits = _limits(transaction, account, caps, analyst, now)
    charged = _fit(limits, ways)
    fields: dict[str, Any] = {part: spent_to_dict(spent) for part, spent in charged.items()}
    fields["charged"] = _difference(caps, charged["spent"])
    if account.every is not None:
        fields["period"] = account.period_at(now)
    known = account.caps is not None and protects == account.protects
    return _Charge(fields, None if known else {"caps": caps_to_dict(caps), "protects": vars(protects)})


def _limits(
    transaction: Transaction, account: AccountState, caps: Filter, analyst: str | None, now: str
) -> dict[str, tuple[str, Filter]]:
    """The caps that a release must fit and whose they are, by the field of an entry that says what is spent of them."""
    limits = {"spent": (f"the budget of {named(account.dataset)}", caps)}
    if analyst is not None and analyst in account.limits:
        last = last_charge(transaction, account.dataset, analyst)
        own = with_spent(within(caps, account.budget, account.limits[analyst]), last and last["analyst_spent"])
        owner = "everybody else ('*')" if analyst == EVERYBODY else f"the analyst {named(analyst)}"
        limits["analyst_spent"] = (owner, own)
    period = account.period_caps(now, caps)
    if period is not None:
        limits["period_spent"] = (f"this {account.every}", period)
    return limits


def _fit(limits: Mapping[str, tuple[str, Filter]], ways: Iterator[ChargeStep]) -> dict[str, Filter]:
    """All limits after the release is charged to each in the same way: the first way that fits."""
    for step in ways:
        try:
            return {part: step.charged_to(caps) for part, (_, caps) in limits.items()}
        except BudgetRefused:
            continue
    raise DoesNotFit(limits.values())


def _difference(before: Filter, after: Filter) -> dict[str, Any]:
    pure = tuple(new - old for new, old in zip(after.pure_spent, before.pure_spent, strict=True))
    squares, slack = after.squares_spent - before.squares_spent, after.slack_spent - before.slack_spent
    return spent_to_dict(replace(after, squares_spent=squares, pure_spent=pure, slack_spent=slack))


def _store_plan(transaction: Transaction, plan: str) -> str:
    """The digest of a plan, which is stored once."""
    own = digest(plan)
    text = "insert into ellipsum_plans (digest, body) values (?, ?) on conflict (digest) do nothing"
    transaction.run(text, [own, plan])
    return own
