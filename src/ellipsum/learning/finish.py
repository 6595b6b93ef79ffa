"""The last round: all the budget that is left, as a plan of its own; and what it publishes.

[L7] The release is the last round's, post-processed with what earlier rounds gave; it is charged the whole budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import Floats
from ..plans import Plan, assemble, count_weight
from ..release import Release
from ..rows import Normal
from ..shape import Ellipsoid
from ..vector_noise import Noise
from .methods import Final
from .rounds import Rounds

_LEAST = 1e-305
_MOST = float(np.finfo(np.float64).max)
_COV_RANGE = 1e140  # beyond it squares of spreads leave the range of doubles
_THINNEST = 1e-7  # the thinnest axis of a covariance that its eigenvalues can still tell from rounding


@dataclass(frozen=True)
class Count:
    """The number of rows as the last round knows it: public, or noisy and at least 1."""

    rows: float
    std: float
    published: float | None


def finish(rounds: Rounds, final: Final, statistic: str, columns: Any, method: str) -> Release:
    """Run the last round and publish."""
    region, neighbours = final.region, rounds.neighbours
    spend = rounds.charge("final", rounds.left, region.ellipsoid.width)
    kappa = 0.0 if neighbours == "replace" else count_weight(region, statistic, rounds.n, spend.mu)
    rows = learned_rows(region.ellipsoid, final.std, region.ellipsoid.center, None, columns)
    plan = assemble(
        rows, statistic, rounds.n, spend, region, kappa, columns, {}, {"method": method}, rounds.session.people
    )
    scaled = plan.noisy_sums(rounds.accumulate(plan.row_map), rounds.stream())
    count = _count(rounds, plan, scaled)
    offset = scaled[: plan.ellipsoid.width] / count.rows
    if count.published is not None and count.published < 1:  # [U3]
        offset = offset / max(1.0, float(np.linalg.norm(offset)))
    center, errors = _combined(final, plan, offset, plan.scaled_std / count.rows)
    return _publish(rounds, plan, center, errors, count, (method, final.clip_bias))


def _count(rounds: Rounds, plan: Plan, scaled: Floats) -> Count:
    """n under "replace"; else the last round's noisy count, joined with the earlier one by their variances."""
    if plan.count_std is None:
        return Count(float(rounds.n), 0.0, None)
    value, variance = float(scaled[-1]) / plan.count_weight, plan.count_std**2
    if rounds.counted is not None:
        earlier, earlier_variance = float(rounds.counted.values[0]), rounds.counted.std**2
        value = (value * earlier_variance + earlier * variance) / (variance + earlier_variance)
        variance = variance * earlier_variance / (variance + earlier_variance)
    return Count(max(value, 1.0), math.sqrt(variance), value)


def _combined(final: Final, plan: Plan, offset: Floats, std: float) -> tuple[Floats, Floats]:
    """The mean, and the std of its error along the axes."""
    if final.combine is not None:
        return final.combine(offset, std)
    ellipsoid = plan.ellipsoid
    return ellipsoid.center + ellipsoid.restore(offset), ellipsoid.unscale * std


def _publish(
    rounds: Rounds, plan: Plan, center: Floats, errors: Floats, count: Count, how: tuple[str, float | None]
) -> Release:
    method, clip_bias = how
    start = plan.ellipsoid.center
    times = count.rows if plan.statistic == "sum" else 1.0
    with np.errstate(divide="ignore", over="ignore"):
        value = np.clip(center * times, -_MOST, _MOST)
        scale = np.where(errors > 0, 1 / np.maximum(errors * times, _LEAST), 0.0)
    direction = None
    if count.published is not None:
        direction = start * count.std if plan.statistic == "sum" else (center - start) * (count.std / count.rows)
    return Release(
        value=value,
        plan=plan,
        noise=Noise(Ellipsoid(start, scale, plan.ellipsoid.axes), 1.0, direction),
        secure=rounds.session.secure,
        count=count.published,
        privacy_spent=rounds.privacy,
        learned={
            "method": method,
            "clip_bias": clip_bias,
            "stated": dict(rounds.budget.stated),
            "rounds": [step.to_dict() for step in rounds.history],
        },
    )


def learned_rows(ellipsoid: Ellipsoid, std: Floats, center: Floats, errors: Floats | None, columns: Any) -> Normal:
    """Normal rows with these spreads along the ellipsoid's axes; errors are stds of the centre along them."""
    spread = np.maximum(std, _LEAST)
    relative = np.ones_like(spread) if errors is None else np.minimum(errors / spread, 1e6)
    axes = ellipsoid.axes
    if axes is None:
        return Normal(center, std=spread, center_error=relative, columns=columns)
    largest = float(spread.max())
    if not 1 / _COV_RANGE < largest < _COV_RANGE:
        share = axes**2
        flat = largest * np.sqrt(share @ (spread / largest) ** 2)
        return Normal(center, std=flat, center_error=np.sqrt(share @ relative**2), columns=columns)
    spread = np.maximum(spread, _THINNEST * largest)
    cov = (axes * spread**2) @ axes.T
    order = np.argsort(spread, kind="stable")  # a covariance lists its axes by growing spread
    return Normal(center, cov=(cov + cov.T) / 2, center_error=relative[order], columns=columns)
