"""method="friendly_core": the coarse center from a friendly average, then the rounds of `auto` about it.

The friendly average finds the center of rows that agree wherever they lie: the magnitude bounds only the search for
the radius, through its logarithm. Where no center is found (or it may not be afforded) the search of `auto` takes over
with what is left. The gate needs a failure probability: a tenth of the budget's delta [F5], [F7], [F8].

References: Tsfadia, Cohen, Kaplan, Mansour & Stemmer 2022 (FriendlyCore); filter, gate and mean as in
docs/proofs/friendly.md.
"""

from __future__ import annotations

import math

import numpy as np

from ..friendly.plan import require_replace
from ..friendly.release import FriendlyRelease, friendly_center, some_rows
from ..rows import NormLaw
from .auto import from_state, locate, norm_law
from .measure import Measure
from .methods import Final
from .rounds import Rounds
from .schedule import Shares
from .state import Shape, State

SHARE = 0.2
_SEARCH_OCTAVES = 40


def prepare(rounds: Rounds, magnitude: float) -> Final:
    """Learn where and how to clip; the last round is left to the caller."""
    require_replace(rounds.neighbors)
    measure, shares = Measure(rounds, magnitude), Shares.of(rounds.noise_rows, rounds.d)
    found = _center(rounds, magnitude)
    state = locate(measure, shares) if found is None else _state(measure, shares, found)
    return from_state(measure, state, shares)


def _center(rounds: Rounds, magnitude: float) -> FriendlyRelease | None:
    """One friendly average of all rows, or of a random subset of them."""
    spend = rounds.charge("friendly center", SHARE, rounds.d, slack=rounds.privacy.slack)
    rows = some_rows(rounds.session, None).read()
    widest = 2 * magnitude * math.sqrt(rounds.d)
    search = (math.ldexp(widest, -_SEARCH_OCTAVES), widest)
    found = friendly_center(rows, search, mu=spend.mu, slack=spend.slack, stream=rounds.stream())
    return found if isinstance(found, FriendlyRelease) else None


def _state(measure: Measure, shares: Shares, found: FriendlyRelease) -> State:
    """Center with its error, a ball, and the law of distances from the center, in units of the magnitude."""
    d, magnitude = measure.d, measure.magnitude
    center, radius = np.clip(found.value / magnitude, -1, 1), found.plan.radius
    radius = float(radius or magnitude) / magnitude
    noise = found.noise_std / magnitude
    ball = Shape(np.full(d, 1 / math.sqrt(d)), b=np.ones(d))  # y = x - c
    state = State(center, noise**2, ball, NormLaw(np.zeros(1), np.ones(1)))
    edges = radius * 2.0 ** np.arange(-6.0, 3.1, 1 / 8 if shares.rows > 300 else 1 / 3)
    law = norm_law(measure, state, edges, shares.norms)
    typical = law.median
    return State(center, noise**2, Shape(np.full(d, typical / math.sqrt(d))), law.scaled(1 / typical))
