"""What a refusal says: which part of the budget ran out, what is left, and the largest request that fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

from ..errors import BudgetRefused, UsageError
from ..numerics.rounding import sqrt_down, typed, within_typed
from ..privacy.budget import Budget, mu_for
from ..privacy.composition import Filter
from ..privacy.guarantee import Privacy
from .charging import (
    NOTHING_CHARGED,
    PROJECTION,
    ZERO,
    ChargeRequest,
    ChargeStep,
    budget_parts,
    short_text,
    ways_to_charge,
)

_DIGITS = 4
_NONE_FITS = "No request of this kind fits."
Limits = list[tuple[str, Filter]]
"""Whose caps a request must fit (the data set's, the analyst's, the period's), and the caps."""


class DoesNotFit(BudgetRefused):
    """A request exceeds some caps; `explain` words the refusal later, outside the transaction."""

    def __init__(self, limits: Iterable[tuple[str, Filter]]) -> None:
        super().__init__(f"The request exceeds the budget. {NOTHING_CHARGED}")
        self.limits: Limits = list(limits)


def explain(limits: Limits, request: ChargeRequest) -> BudgetRefused:
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
    """Which parts of the budget ran out."""
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
    """What is left of the cap in mu, rounded down."""
    return sqrt_down(Fraction(caps.mu) ** 2 - caps.squares_spent)


def _epsilon_left(caps: Filter) -> float:
    """About the largest pure epsilon that the caps accept: as such, or as the Gaussian curve that covers it [P6]."""
    from scipy.special import log_ndtr

    left = [float(Fraction(cap) - spent) for cap, spent in zip(caps.pure, caps.pure_spent, strict=True)]
    mu = _mu_left(caps)
    return max([float(log_ndtr(mu / 2) - log_ndtr(-mu / 2)), *left])


def _round_to_fit(caps: list[Filter], estimate: float, ways: Callable[[float], list[ChargeStep]]) -> float | None:
    """The largest amount of four digits, next to the estimate, whose charge all caps accept."""

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
