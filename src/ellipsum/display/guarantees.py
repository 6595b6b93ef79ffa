"""A guarantee in words and in numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from ..privacy.attack_bounds import found_at, in_a_hundred, right_guesses
from .subject import Table

_ALARMS = 0.01
_DELTAS = (0.0, 1e-9, 1e-6, 1e-4, 1e-2)
_FOUR_DIGITS = Context(prec=4, rounding=ROUND_CEILING)
FORMULA = "Pr[M(D) ∈ S] ≤ e^ε · Pr[M(D′) ∈ S] + δ"


def secret(privacy: Any) -> str:
    """What the guesser wants to know."""
    unit = "row" if privacy.unit == "row" else "person with all of their rows"
    if privacy.neighbors == "replace":
        return f"which of two possibilities one {unit} holds, whatever they are"
    return f"whether one {unit} is among the data at all"


def odds(privacy: Any) -> list[str]:
    """[P11] What the guarantee leaves to somebody who guesses."""
    others = "row" if privacy.unit == "row" else "person's rows"
    right, found = in_a_hundred(right_guesses(privacy)), in_a_hundred(found_at(privacy, _ALARMS))
    return [
        f"Suppose that somebody knows every other {others}, and everything else there is to know, and guesses from "
        f"this release {secret(privacy)}.",
        f"Of 100 such guesses at best {right} are right, whoever guesses and however; tossing a coin, 50 are right.",
        f"A test that gives a false alarm in 1 case of 100 gives a true one in at best {found} of 100.",
    ]


def in_symbols(privacy: Any) -> list[str]:
    """The definition that holds."""
    return [
        f"For all data sets D and D′ that differ in {privacy.change}, and every set S of outputs: {FORMULA}, "
        "at every pair (ε, δ) of the curve below; all pairs hold at once, and are rounded up."
    ]


def curve(privacy: Any, stated: Mapping[str, float]) -> Table:
    """Points of the exact curve, the stated one among them, which every guarantee is proved to keep."""
    points = {delta: privacy.epsilon(delta) for delta in _DELTAS}
    points |= {stated["delta"]: stated["epsilon"]} if "delta" in stated else {}
    lines = [[f"{delta:g}", _up(points[delta])] for delta in sorted(points) if math.isfinite(points[delta])]
    return Table("points of the curve", ("δ", "ε"), lines)


def _up(epsilon: float) -> str:
    """Four digits, rounded up."""
    return f"{_FOUR_DIGITS.create_decimal(Decimal(epsilon)).normalize():g}"
