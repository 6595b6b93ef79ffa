"""The learning methods by name, and what each hands over for the last round.

A method is `prepare(rounds, magnitude, **options) -> Final`: it spends part of the budget on rounds of its own and says
how the last round clips; the last round then takes all that is left (`finish.py`). To add one: write a module with such
a `prepare` and give it a name in `charged.METHODS`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, cast

from ..errors import Floats, UsageError, choice
from ..friendly.plan import require_replace
from ..privacy.budget import Budget
from ..regions.ellipsoid import Clip
from ..releases.round_record import METHODS
from ..rows import LearnedBox, NormLaw
from .rounds import Rounds


@dataclass(frozen=True)
class Final:
    """The last round, and what was learned on the way, in original units.

    region: where the last round clips (its ellipsoid holds the radius).
    std: spread of the rows along the axes of the region's ellipsoid.
    combine: from the noisy clipped mean in the scaled space (B (mean - c), noise std one per axis) to the published
        center and the std of its error along the axes; None publishes c + B^-1 y as it is.
    """

    region: Clip
    std: Floats
    combine: Callable[[Floats, Floats], tuple[Floats, Floats]] | None = None
    clip_bias: float | None = None
    """Estimated worst case of what the last clip hides, as a length over all columns."""
    scale: Floats | None = None
    """y = scale * (axes^T (x - center)), whose norms have the law below; None where no law was learned."""
    law: NormLaw | None = None
    magnitude: float | Floats = math.inf
    law_about: Callable[[float], NormLaw] | None = None
    """Of one column, the law about any center, where that of the region is not near the mean."""

    box: LearnedBox | None = None
    """The ends of each column, where the last round clamps columns rather than clips rows."""

    def about(self, center: Floats) -> Final:
        """What was learned, with the law about this center."""
        return self if self.law_about is None else replace(self, law=self.law_about(float(center[0])))


Prepare = Callable[[Rounds, Any], Final]


MOST_STEPS = 1000
SLACK_SHARE = 0.1
"""Part of the budget's delta that the gate of "friendly_core" may fail with."""


def slack_for(method: str, budget: Budget, neighbors: str) -> float:
    """The failure probability that a method needs beside its share of mu; most need none."""
    if method != "friendly_core":
        return 0.0
    require_replace(neighbors)
    delta = dict(budget.stated).get("delta")
    if delta is None:
        raise UsageError("friendly_core needs a failure probability. State the budget as epsilon= and delta=.")
    return SLACK_SHARE * delta


def prepare_for(method: str, options: Mapping[str, Any]) -> Prepare:
    """The function behind a method's name, with the method's own options (its keyword arguments)."""
    module = import_module(f".{choice('method', method, METHODS)}", __package__)
    parameters = inspect.signature(module.prepare).parameters.values()
    offered = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    unknown = [name for name in options if name not in offered]
    if unknown:
        own = f"{method} takes {', '.join(offered)}" if offered else f"{method} takes none"
        raise UsageError(
            f"{', '.join(unknown)} cannot be chosen for Unknown rows: shape and radius are learned. {own}."
        )
    return cast(Prepare, partial(module.prepare, **options))
