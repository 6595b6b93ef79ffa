"""What to say where a release does not fit: what is spent, asked and left, and the largest epsilon that would fit."""

from __future__ import annotations

import math
from fractions import Fraction

from ..errors import BudgetRefused, UsageError
from ..privacy.composition import Filter
from ..privacy.gaussian_curve import gaussian_epsilon_upper, round_down, sqrt_down, sqrt_up, typed
from ..privacy.guarantee import Privacy, mu_for
from .amounts import brief
from .charging import Ask

_LEAST, _HALVINGS = 1e-8, 30  # of what was asked; to far more than four digits
_UNDER_GAUSSIAN = " under noise='gaussian'"


def refused(whose: str, caps: Filter, ask: Ask) -> BudgetRefused:
    """whose: the data set, the analyst or the period whose caps are too small."""
    text = f"{whose}: spent {spent_of(caps)}, left {left_of(caps)}, asked {asked_of(ask)}. {_advice(caps, ask)}"
    return BudgetRefused(f"{text} Nothing was read or spent.")


def spent_of(caps: Filter) -> str:
    """What is spent, of each cap."""
    pairs = list(zip(caps.pure_spent, caps.pure, strict=True))
    parts = [f"epsilon {brief(spent, up=True)} of {brief(Fraction(cap))}" for spent, cap in pairs]
    if caps.mu:
        spent = Fraction(sqrt_up(caps.squares_spent) if caps.squares_spent else 0)
        parts.append(f"mu {brief(spent, up=True)} of {brief(Fraction(caps.mu))}")
    if caps.slack:
        parts.append(f"slack {brief(caps.slack_spent, up=True)} of {brief(Fraction(caps.slack))}")
    return ", ".join(parts)


def left_of(caps: Filter) -> str:
    """What is left of each cap."""
    pairs = list(zip(caps.pure_spent, caps.pure, strict=True))
    parts = [f"epsilon {brief(Fraction(cap) - spent)}" for spent, cap in pairs]
    whole = Fraction(caps.mu) if caps.squares_spent == 0 else Fraction(mu_left(caps))
    parts += [f"mu {brief(whole)}"] if caps.mu else []
    parts += [f"slack {brief(slack_left(caps))}"] if caps.slack else []
    return ", ".join(parts)


def asked_of(ask: Ask) -> str:
    if ask.stated:
        return ", ".join(f"{name} {value:g}" for name, value in ask.stated.items())
    return str(ask.guarantee)


def mu_left(caps: Filter) -> float:
    return sqrt_down(Fraction(caps.mu) ** 2 - caps.squares_spent)


def slack_left(caps: Filter) -> Fraction:
    return Fraction(caps.slack) - caps.slack_spent


def _advice(caps: Filter, ask: Ask) -> str:
    left = [Fraction(cap) - spent for cap, spent in zip(caps.pure, caps.pure_spent, strict=True)]
    if left and not caps.mu:
        pure = isinstance(ask.guarantee, Privacy) and not ask.gaussian
        beside = "" if pure or ask.pair is None else f" with delta at most {brief(slack_left(caps))}"
        return f"The largest epsilon that fits is {brief(max(left))}{beside}." if max(left) else "Nothing is left."
    slack = Fraction(ask.guarantee.as_pair().slack)
    if slack > slack_left(caps):
        rare, left_over = brief(slack, up=True), brief(slack_left(caps))
        return (
            f"Its guarantee holds but for probability {rare} (slack), and {left_over} of that is left. "
            "Caps with slack= are stated when a budget is opened."
        )
    fitting = largest_pure(caps, ask)
    if fitting is not None:
        return f"The largest epsilon that fits is {fitting:g}."
    largest = largest_epsilon(caps, ask)
    if largest is not None:
        return f"The largest epsilon that fits is {largest:g}{'' if ask.gaussian else _UNDER_GAUSSIAN}."
    if "mu" in ask.stated and mu_left(caps) > 0:
        return f"The largest mu that fits is {brief(Fraction(mu_left(caps)))}."
    return "No release of this kind fits any more."


def largest_epsilon(caps: Filter, ask: Ask) -> float | None:
    """The largest epsilon of four digits whose Gaussian release at the asked delta still fits; None if none does."""
    if ask.pair is None or mu_left(caps) == 0:
        return None
    slack = float(ask.guarantee.as_pair().slack) if ask.gaussian else 0.0
    room = round_down(Fraction(ask.pair[1]) - Fraction(slack))
    if room <= 0:
        return None
    start = gaussian_epsilon_upper(mu_left(caps), room)
    if not 0 < start < math.inf:
        return None
    unit = 10.0 ** (math.floor(math.log10(start)) - 3)
    for fewer in range(4):
        candidate = float(f"{(math.floor(start / unit) - fewer) * unit:.4g}")
        if candidate > 0 and _fits(candidate, ask.pair[1], slack, caps):
            return candidate
    return None


def largest_pure(caps: Filter, ask: Ask) -> float | None:
    """The largest epsilon of four digits whose pure release still fits; None if none does, or no such was asked."""
    high = ask.stated.get("epsilon")
    if not high or ask.stated.get("delta") != 0 or len(ask.guarantee.as_pair().pure) != 1:
        return None
    low = high * _LEAST
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _takes(caps, middle) else (low, middle)
    unit = 10.0 ** (math.floor(math.log10(low)) - 3)
    candidate = float(f"{math.floor(low / unit) * unit:.4g}")
    return candidate if _takes(caps, candidate) else None


def _takes(caps: Filter, epsilon: float) -> bool:
    try:
        caps.charge(epsilon=typed(epsilon))
    except BudgetRefused:
        return False
    return True


def _fits(epsilon: float, delta: float, slack: float, caps: Filter) -> bool:
    try:
        return mu_for(epsilon, delta, slack) <= mu_left(caps)
    except UsageError:
        return False
