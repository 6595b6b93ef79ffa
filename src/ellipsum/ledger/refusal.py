"""What to say where a request does not fit: what ran out, what is left, and the largest request that fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

from ..errors import BudgetRefused, UsageError
from ..numerics.rounding import sqrt_down, sqrt_up, typed
from ..privacy.budget import Budget, mu_for
from ..privacy.composition import Filter
from .amounts import brief
from .charging import NOTHING, ChargeRequest, ChargeStep, ways_to_charge

_LEAST = 1e-8  # of what was requested
_HALVINGS = 30  # of the logarithm of 1e8: an error of 2e-8, far below the four digits that are shown
_DIGITS = 4
Limits = list[tuple[str, Filter]]


class DoesNotFit(BudgetRefused):
    """A request exceeds somebody's caps; what to say of it is worked out later, while nobody waits."""

    def __init__(self, limits: Iterable[tuple[str, Filter]]) -> None:
        super().__init__("the request exceeds the budget. Nothing was read or spent.")
        self.limits: Limits = list(limits)


def explain(limits: Limits, request: ChargeRequest) -> BudgetRefused:
    """limits: whose caps the request must fit (the data set, the analyst, the period), and the caps."""
    step = _usual_step(limits[0][1], request)
    owner, caps = next(((owner, caps) for owner, caps in limits if not _accepts(caps, step)), limits[0])
    amounts = f"spent {spent_of(caps)}, left {left_of(caps)}, requested {_describe(request)}"
    advice = _advise([caps for _, caps in limits], request)
    return BudgetRefused(
        f"{owner} has too little {_name_missing(caps, step)} left: {amounts}. {advice} Nothing was read or spent."
    )


def spent_of(caps: Filter) -> str:
    """What is spent, of each cap."""
    pairs = list(zip(caps.pure_spent, caps.pure, strict=True))
    parts = [f"epsilon {brief(spent, up=True)} of {brief(Fraction(cap))}" for spent, cap in pairs]
    if caps.mu:
        spent = Fraction(sqrt_up(caps.squares_spent) if caps.squares_spent else 0)
        parts.append(f"mu {brief(spent, up=True)} of {brief(Fraction(caps.mu))}")
    if caps.slack:
        parts.append(f"delta {brief(caps.slack_spent, up=True)} of {brief(Fraction(caps.slack))}")
    return ", ".join(parts)


def left_of(caps: Filter) -> str:
    """What is left of each cap."""
    pairs = list(zip(caps.pure_spent, caps.pure, strict=True))
    parts = [f"epsilon {brief(Fraction(cap) - spent)}" for spent, cap in pairs]
    mu = Fraction(sqrt_down(Fraction(caps.mu) ** 2 - caps.squares_spent) if caps.squares_spent else caps.mu)
    parts += [f"mu {brief(mu)}"] if caps.mu else []
    parts += [f"delta {brief(_delta_left(caps))}"] if caps.slack else []
    return ", ".join(parts)


def _delta_left(caps: Filter) -> Fraction:
    return Fraction(caps.slack) - caps.slack_spent


def _describe(request: ChargeRequest) -> str:
    stated = ", ".join(f"{name} {value:g}" for name, value in request.stated.items())
    return stated or str(request.guarantee)


def _usual_step(caps: Filter, request: ChargeRequest) -> ChargeStep:
    """The way in which the caps would take the request: as a pure step where they have no mu."""
    ways = list(ways_to_charge(request))
    return next((way for way in ways if caps.mu or not way.mu), ways[0])


def _accepts(caps: Filter, step: ChargeStep) -> bool:
    try:
        step.charged_to(caps)
    except BudgetRefused:
        return False
    return True


def _name_missing(caps: Filter, step: ChargeStep) -> str:
    """Which part of the budget ran out."""
    parts = {
        "epsilon" if caps.pure else "mu": ChargeStep(NOTHING, step.pure, NOTHING),
        "mu": ChargeStep(step.mu, () if caps.pure else step.pure, NOTHING),
        "delta": ChargeStep(NOTHING, (), step.slack),
    }
    return " and ".join(name for name, part in parts.items() if not _accepts(caps, part)) or "mu"


def _advise(caps: list[Filter], request: ChargeRequest) -> str:
    """The largest request of the same kind that all caps accept, tried before it is told."""
    delta = request.stated.get("delta")
    if delta is None or "epsilon" not in request.stated:
        return _advise_mu(caps, request)
    if caps[0].mu and delta:
        slack = float(request.guarantee.as_pair().slack) if request.gaussian else 0.0
        largest = _largest(caps, request.stated["epsilon"], lambda epsilon: _gaussian_step(epsilon, delta, slack))
        ending = f" with delta {delta:g} and Gaussian noise"
    else:
        rest = min([typed(delta), *map(_delta_left, caps)])
        shown = brief(rest)
        largest = _largest(caps, request.stated["epsilon"], lambda epsilon: _pure_step(epsilon, Fraction(shown)))
        ending = f" with delta {shown}" if delta else ""
    return f"The largest epsilon that fits is {largest:g}{ending}." if largest else "No request of this kind fits."


def _advise_mu(caps: list[Filter], request: ChargeRequest) -> str:
    name = "rho" if "rho" in request.stated else "mu"
    if name in request.stated and caps[0].mu:
        largest = _largest(caps, request.stated[name], lambda value: _mu_step(name, value))
        return f"The largest {name} that fits is {largest:g}." if largest else "No request of this kind fits."
    return (
        "This budget adds up epsilon and delta: request those." if not caps[0].mu else "No request of this kind fits."
    )


def _pure_step(epsilon: float, delta: Fraction) -> ChargeStep:
    return ChargeStep(NOTHING, (typed(epsilon),), delta)


def _gaussian_step(epsilon: float, delta: float, slack: float) -> ChargeStep:
    return ChargeStep(Fraction(mu_for(epsilon, delta, slack)), (), Fraction(slack))


def _mu_step(name: str, value: float) -> ChargeStep:
    return ChargeStep(max(typed(value) if name == "mu" else NOTHING, Fraction(Budget(**{name: value}).mu)), (), NOTHING)


def _largest(caps: list[Filter], requested: float, step_of: Callable[[float], ChargeStep]) -> float | None:
    """The largest amount of four digits, at most the requested one, whose step all caps accept."""

    def fits(amount: float) -> bool:
        try:
            step = step_of(amount)
        except UsageError:  # outside the range of amounts
            return False
        return all(_accepts(each, step) for each in caps)

    if fits(requested):
        return requested
    low, high = requested * _LEAST, requested
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    unit = 10.0 ** (math.floor(math.log10(low)) - _DIGITS + 1)
    candidates = (float(f"{round_to_unit(low / unit) * unit:.{_DIGITS}g}") for round_to_unit in (math.ceil, math.floor))
    return next(filter(fits, candidates), None)
