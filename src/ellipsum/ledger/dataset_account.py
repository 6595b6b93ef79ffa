"""The account that a call is charged to: a data set, and the analyst who asks [Q1].

A refusal names the part of the budget that ran out, what is left, and the largest request that fits.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from ..errors import BudgetRefused, DataError, EllipsumError, UsageError, named
from ..numerics.rounding import sqrt_down, typed, within_typed
from ..privacy.budget import Budget, mu_for
from ..privacy.composition import Filter
from ..privacy.guarantee import Privacy
from .account_state import EVERYBODY, AccountState, last_charge, read_account
from .charging import (
    NOTHING_CHARGED,
    PROJECTION,
    ZERO,
    Amounts,
    ChargeRequest,
    ChargeStep,
    budget_parts,
    caps_for,
    caps_to_dict,
    caps_within,
    short_text,
    spent_to_dict,
    ways_to_charge,
    with_spent,
)
from .entries import (
    Store,
    Transaction,
    append_entry,
    bad_entry,
    canonical,
    digest,
    read_clock,
    read_fields,
    reading_entries,
)

_LONGEST = 200
_DIGITS = 4
_NONE_FITS = "No request of this kind fits."
Limits = list[tuple[str, Filter]]
"""The owner of each limit (data set, analyst or period), and the caps with their spent amounts."""
_NOT_RECORDED = (
    "The release was charged, but the ledger could not record that it completed. The ledger will list it as "
    "incomplete, and its request_id, if any, does not return it. Save this release. Reason: "
)


def check_name(what: str, value: object) -> str:
    """A name of a data set, request, analyst or column that can be printed on a line."""
    if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST or not value.isprintable():
        raise UsageError(f"{what} must be a name of 1 to {_LONGEST} printable characters.")
    return value


class LedgerWarning(UserWarning):
    """Warns that a release was charged, but the ledger could not record that it completed."""


@dataclass(frozen=True)
class LedgerCharge:
    """The number and digest of a charge's entry, and the release that is stored under its request ID, if any."""

    number: int
    digest: str = ""
    stored: str | None = None


@dataclass(frozen=True, repr=False)
class DatasetAccount:
    """The budget of one data set, as one analyst spends it: what calls take as `ledger`.

    `Ledger.dataset` and `Ledger.in_memory` create it. Printing it shows what is spent and what remains.

    Parameters
    ----------
    store : Store
        Where the ledger's entries are stored.
    dataset : str
        The name of the data set. It may end in ``@`` and a version of the data.
    analyst : str, optional
        Who asks; needed where the data set has limits for its analysts.
    request_id : str, optional
        Set by `for_request`.

    Notes
    -----
    Privacy proof: [Q1]. Each call is charged before it reads a value.

    Examples
    --------
    >>> import ellipsum as es
    >>> budget = es.Ledger.in_memory(epsilon=1, delta=1e-6)
    >>> release = es.sum([[1.0], [3.0]], es.Box(0, 5), epsilon=0.25, delta=0, ledger=budget)
    >>> budget.remaining
    {'epsilon': 0.75, 'delta': 1e-06}
    """

    store: Store
    dataset: str
    analyst: str | None = None
    request_id: str | None = None

    def __post_init__(self) -> None:
        check_name("dataset", self.dataset)
        for name, value in (("request_id", self.request_id), ("analyst", self.analyst)):
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

    @property
    def remaining(self) -> dict[str, float]:
        """What is left of the whole budget: epsilon and delta, or mu where Gaussian releases are added."""
        state = self.state
        if state.caps is None:
            return {name: float(amount) for name, amount in state.budget.items()}
        return {part.name: float(part.left) for part in budget_parts(state.caps)}

    def __repr__(self) -> str:
        with reading_entries():
            return repr(self.state)

    def for_request(self, request_id: str | None) -> DatasetAccount:
        """The account for one request: the same request_id again returns the stored release [Q3]."""
        return replace(self, request_id=request_id)

    def reserve(self, request: ChargeRequest) -> LedgerCharge:
        """Charge a release, or refuse it [Q1]; the charge is on disk when this returns."""
        ways = ways_to_charge(request)  # Computed before other processes have to wait.
        name, _, version = self.dataset.partition("@")
        request_digest = None if self.request_id is None else _digest_request(request, version)
        with self.store.writing() as transaction:
            account = read_account(transaction, name)
            with reading_entries():
                stored = _find_stored(transaction, name, self.request_id, request_digest)
            if stored is not None:
                return stored
            if account.closed:
                raise BudgetRefused(f"The budget of {named(name)} is closed. {NOTHING_CHARGED}")
            holder, now = account.holder(self.analyst), read_clock()
            unit = account.privacy_unit.fill_in(request.privacy_unit, name)
            caps = account.caps or caps_for(account.budget, request)
            with reading_entries():
                limits = _limits(transaction, account, caps, holder, now)
            step = next((way for way in ways if all(way.fits(limit) for _, limit in limits.values())), None)
            if step is not None:
                if account.caps is None or unit != account.privacy_unit:
                    accounting = {"caps": caps_to_dict(caps), "privacy_unit": vars(unit)}
                    append_entry(transaction, "accounting set", name, accounting)
                spent = {part: step.charged_to(limit) for part, (_, limit) in limits.items()}
                fields = {
                    "note": request.note,
                    "guarantee": request.guarantee.to_dict(),
                    "stated": dict(request.stated),
                    "plan": _store_plan(transaction, request.plan),
                    "charged": _difference(caps, spent["spent"]),
                    "period": account.period_at(now),
                    "version": version or None,
                    "request": request_digest,
                    "by": None if self.analyst == holder else self.analyst,
                    **{part: spent_to_dict(after) for part, after in spent.items()},
                }
                fields = {field: value for field, value in fields.items() if value is not None}
                entry = append_entry(transaction, "reserved", name, fields, analyst=holder, key=self.request_id)
                return LedgerCharge(*entry)
        raise _explain(list(limits.values()), request)  # Outside the transaction: it takes a while.

    def enter(self, charge: LedgerCharge, text: str) -> None:
        """Record that the release completed: the digest of its JSON, and with a request ID the JSON itself."""
        with self.store.writing() as transaction:
            entry = transaction.run("select digest, dataset from ellipsum_entries where number = ?", [charge.number])
            if entry != [(charge.digest, self.name)]:
                raise DataError("The ledger does not contain this charge: it was replaced, or is an older copy.")
            number, _ = append_entry(transaction, "released", self.name, {"release": digest(text)}, of=charge.number)
            if self.request_id is not None:
                transaction.run("insert into ellipsum_results (number, body) values (?, ?)", [number, text])

    def settle(self, charge: LedgerCharge, text: str) -> None:
        """`enter` the release. If that fails, warn: the release is charged, so the caller still returns it."""
        try:
            self.enter(charge, text)
        except EllipsumError as error:
            warnings.warn(LedgerWarning(f"{_NOT_RECORDED}{error}"), stacklevel=4)


def _find_stored(
    transaction: Transaction, dataset: str, request_id: str | None, request_digest: str | None
) -> LedgerCharge | None:
    """The release that is stored under a request ID, for the same request and no other [Q3]; None for a new ID."""
    text = "select number, body, digest from ellipsum_entries where dataset = ? and key = ?"
    rows = [] if request_id is None else transaction.run(text, [dataset, request_id])
    if not rows:
        return None
    charge = read_fields(*rows[0])
    if charge["request"] != request_digest:
        raise BudgetRefused(
            f"The request_id {named(request_id)} was used for a different request. {NOTHING_CHARGED} "
            "Use a new request_id."
        )
    text = (
        "select r.body, e.number, e.body, e.digest from ellipsum_results r "
        "join ellipsum_entries e on e.number = r.number where e.of = ?"
    )
    rows = transaction.run(text, [charge["number"]])
    if not rows:
        raise BudgetRefused(
            f"The request_id {named(request_id)} was charged at {charge['at']} (entry {charge['number']}), but its "
            f"release is not stored: it failed or is still running. It stays charged. {NOTHING_CHARGED} Wait, or use "
            "a new request_id, which is charged again."
        )
    release, number, *entry = rows[0]
    if read_fields(number, *entry)["release"] != digest(release):
        raise bad_entry(number, "the release that is stored for it was changed")
    return LedgerCharge(int(charge["number"]), stored=str(release))


def _digest_request(request: ChargeRequest, version: str) -> str:
    """The digest of the whole request and the data's version; the version of ellipsum is left out."""
    content = {
        "note": request.note,
        "guarantee": request.guarantee.to_dict(),
        "stated": dict(request.stated),
        "plan": {name: value for name, value in json.loads(request.plan).items() if name != "version"},
        "columns": None if request.columns is None else list(request.columns),
        "privacy_id": request.privacy_id,
        "version": version,
    }
    return digest(canonical(content))


def _limits(
    transaction: Transaction, account: AccountState, caps: Filter, analyst: str | None, now: str
) -> dict[str, tuple[str, Filter]]:
    """The caps that a release must fit, with their owner, by the field of an entry that has the spent amount."""
    limits = {"spent": (named(account.dataset), caps)}
    if analyst is not None and analyst in account.limits:
        last = last_charge(transaction, account.dataset, analyst)
        own = caps_within(caps, account.budget, account.limits[analyst])
        own = with_spent(own, None if last is None else last["analyst_spent"])
        owner = "everybody else ('*')" if analyst == EVERYBODY else f"the analyst {named(analyst)}"
        limits["analyst_spent"] = (owner, own)
    period = account.period_caps(now, caps)
    if period is not None:
        limits["period_spent"] = (f"this {account.every}", period)
    return limits


def _difference(before: Filter, after: Filter) -> Amounts:
    pure = tuple(new - old for new, old in zip(after.pure_spent, before.pure_spent, strict=True))
    squares, slack = after.squares_spent - before.squares_spent, after.slack_spent - before.slack_spent
    return spent_to_dict(replace(after, squares_spent=squares, pure_spent=pure, slack_spent=slack))


def _store_plan(transaction: Transaction, plan: str) -> str:
    """Store a plan once, and return its digest."""
    own = digest(plan)
    text = "insert into ellipsum_plans (digest, body) values (?, ?) on conflict (digest) do nothing"
    transaction.run(text, [own, plan])
    return own


# What a refusal says -----------------------------------------------------------------------------------


def _explain(limits: Limits, request: ChargeRequest) -> BudgetRefused:
    """The refusal of a request, with the largest request of its kind that all limits accept."""
    ways = ways_to_charge(request)
    step = next((way for way in ways if limits[0][1].mu or not way.mu), ways[0])
    owner, caps = next(((owner, caps) for owner, caps in limits if not step.fits(caps)), limits[0])
    missing = _missing_parts(caps, step)
    left = [f"{part.name} = {short_text(part.left)} of {short_text(part.cap)}" for part in budget_parts(caps)]
    left += ["delta = 0"] if "delta" in missing and not caps.slack else []
    return BudgetRefused(
        f"Budget of {owner} exceeded: not enough {' and '.join(missing)} left. Requested: {_describe(request)}. "
        f"Remaining: {', '.join(left)}. {_advise([each for _, each in limits], request)} {NOTHING_CHARGED}"
    )


def _describe(request: ChargeRequest) -> str:
    stated = ", ".join(f"{name} = {value:g}" for name, value in request.stated.items())
    return stated or str(request.guarantee)


def _missing_parts(caps: Filter, step: ChargeStep) -> list[str]:
    """The parts of the budget that ran out."""
    loss = ChargeStep(step.mu, step.pure, ZERO)
    parts = [] if loss.fits(caps) else ["mu" if caps.mu else "epsilon"]
    return parts if ChargeStep(ZERO, (), step.slack).fits(caps) else [*parts, "delta"]


def _advise(caps: list[Filter], request: ChargeRequest) -> str:
    """The largest request of the same kind that all caps accept; it is tried before it is stated."""
    requested = request.stated
    if "epsilon" not in requested:
        return _advise_mu(caps, request)
    delta, slack = requested["delta"], 0.0
    if isinstance(request.guarantee, Privacy):
        slack = request.guarantee.slack
    mu, estimate, options = min(map(_mu_left, caps)), min(map(_epsilon_left, caps)), ""
    by_curve = bool(caps[0].mu and delta and (request.gaussian or not slack))
    if by_curve:
        gaussian = "adversary='adaptive'" if request.note == PROJECTION else "noise='gaussian'"
        options = "" if request.gaussian else f", {gaussian}"
        estimate = max(estimate, Privacy(mu, slack).epsilon(delta))
    else:
        left = min([typed(delta), *(Fraction(each.slack) - each.slack_spent for each in caps)])
        delta = float(short_text(left))
        if not delta and (slack or (request.note == PROJECTION)):
            return _NONE_FITS
        if delta and caps[0].mu:
            options = ", noise='knorm'"
        if request.gaussian and not delta:
            options = ", noise='auto'"

    def ways(epsilon: float) -> list[ChargeStep]:
        pure = ChargeStep(ZERO, (typed(epsilon),), typed(delta))
        if not by_curve:
            return [pure]
        curve = mu_for(within_typed(epsilon), within_typed(delta), slack)
        return [ChargeStep(Fraction(curve), (), Fraction(slack)), pure]

    largest = _round_to_fit(caps, estimate, ways)
    if largest is None:
        return _NONE_FITS
    return f"Largest request that fits: epsilon = {largest:g}, delta = {delta:.12g}{options}."


def _advise_mu(caps: list[Filter], request: ChargeRequest) -> str:
    name = "rho" if "rho" in request.stated else "mu"
    if not caps[0].mu:
        return f"This budget is in epsilon and delta. Pass epsilon= and delta= instead of {name}=."
    if name not in request.stated:
        return _NONE_FITS

    def ways(value: float) -> list[ChargeStep]:
        amount = typed(value) if name == "mu" else ZERO
        return [ChargeStep(max(amount, Fraction(Budget(**{name: value}).mu)), (), ZERO)]

    mu = min(map(_mu_left, caps))
    largest = _round_to_fit(caps, mu if name == "mu" else mu**2 / 2, ways)
    return f"Largest request that fits: {name} = {largest:g}." if largest else _NONE_FITS


def _mu_left(caps: Filter) -> float:
    """The rest of the cap in mu, rounded down."""
    return sqrt_down(Fraction(caps.mu) ** 2 - caps.squares_spent)


def _epsilon_left(caps: Filter) -> float:
    """About the largest pure epsilon that the caps accept, by itself or by the Gaussian curve that covers it [P6]."""
    from scipy.special import log_ndtr

    left = [float(Fraction(cap) - spent) for cap, spent in zip(caps.pure, caps.pure_spent, strict=True)]
    mu = _mu_left(caps)
    return max([float(log_ndtr(mu / 2) - log_ndtr(-mu / 2)), *left])


def _round_to_fit(caps: list[Filter], estimate: float, ways: Callable[[float], list[ChargeStep]]) -> float | None:
    """The largest amount of four digits near the estimate whose charge all caps accept; None if there is none."""

    def fits(amount: float) -> bool:
        try:
            steps = ways(amount)
        except UsageError:  # The amount is outside the supported range.
            return False
        return any(all(step.fits(each) for each in caps) for step in steps)

    if not 0 < estimate < math.inf:
        return None
    unit = 10.0 ** (math.floor(math.log10(estimate)) - _DIGITS + 1)
    candidates = (float(f"{rounded(estimate / unit) * unit:.{_DIGITS}g}") for rounded in (math.ceil, math.floor))
    return next(filter(fits, candidates), None)
