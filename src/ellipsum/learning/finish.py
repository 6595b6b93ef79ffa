"""The last round: all the budget that is left, as a plan of its own; and what it publishes.

[L7] The release is the last round's, post-processed with what earlier rounds gave; it is charged the whole budget.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import Floats
from ..plans.build import Terms, assemble, few_octaves, last_count_weight
from ..plans.plan import Plan
from ..regions.ellipsoid import Ellipsoid, length
from ..releases.decode import RowCounts, absent_offset, count_clipped, count_rows, hold, joined
from ..releases.noise_covariance import Noise
from ..releases.release import Published, Release
from ..row_maps.auxiliary_counts import MOST_OCTAVES, OCTAVES
from ..rows import LearnedRows, NormLaw, Rows, Wishes
from .methods import Final
from .rounds import Rounds

_LEAST = 1e-305
_MOST = float(np.finfo(np.float64).max)


def finish(rounds: Rounds, final: Final, statistic: str, columns: Any, method: str) -> Release:
    """Run the last round and publish."""
    region = replace(final.region, clipping_error=min(final.region.clipping_error, _MOST))  # a square may overflow
    handling = rounds.handling
    width = region.ellipsoid.width
    spend = rounds.charge("final", rounds.left, width)
    kappa = last_count_weight(region, statistic, rounds.n, spend, rounds.session.people)
    rows = _rows(final, columns)
    people = rounds.session.people
    wishes = Wishes(weights="relative" if rounds.relative and rows.clamps else None)
    terms = Terms(
        rows, statistic, rounds.n, rounds.d, rounds.budget, rounds.neighbors, columns, people, wishes, handling
    )
    octaves = few_octaves(rounds.d) if rounds.pure else _octaves(region.ellipsoid, final.magnitude)
    options = {"method": method, "missing": handling.missing}
    plan = assemble(terms, spend, region, kappa, options, octaves)
    scaled = plan.noisy_sums(rounds.accumulate(plan.row_map), rounds.stream())
    counts = _joined(rounds, plan, count_rows(plan, scaled))
    center, errors = _mean(plan, final, scaled[:width], counts)
    return _publish(rounds, plan, center, errors, counts, scaled, (method, final.clip_bias))


def _rows(final: Final, columns: Any) -> Rows:
    """What the last round takes rows to be: clamped column by column, or clipped by their norm."""
    if final.box is None:
        return learned_rows(final, final.region.ellipsoid.center, None, columns)
    return final.box.named(columns)


def _octaves(ellipsoid: Ellipsoid, magnitude: float | Floats) -> int:
    """Octaves of norms up to that of the farthest row within the magnitude, and one without end [U7]."""
    if not np.isfinite(magnitude).all():
        return OCTAVES
    matrix = ellipsoid.matrix
    with np.errstate(over="ignore"):
        sides = np.abs(ellipsoid.center) + magnitude
        far = ellipsoid.scale * sides if matrix is None else np.abs(matrix) @ sides
        octaves = np.log2(max(length(far), 1.0))
    return int(min(max(math.ceil(octaves), 1) + 1, MOST_OCTAVES)) if np.isfinite(octaves) else MOST_OCTAVES


def _joined(rounds: Rounds, plan: Plan, counts: RowCounts) -> RowCounts:
    """The last round's noisy count joined with the earlier one, by their variances."""
    if rounds.counted is None or counts.count is None or plan.count_std is None:
        return counts
    variance, earlier = plan.count_std**2, rounds.counted.std**2
    value = (counts.count * earlier + float(rounds.counted.values[0]) * variance) / (variance + earlier)
    both = joined(counts, plan.count_std, rounds.counted.std)
    return replace(both, rows=value - (counts.count - counts.rows), count=value)


def _mean(plan: Plan, final: Final, values: Floats, counts: RowCounts) -> tuple[Floats, Floats]:
    """The mean, and the std of its error along the axes."""
    ellipsoid = plan.ellipsoid
    rows = np.maximum(counts.rows, 1.0)
    start = absent_offset(plan)
    whole = float(plan.n or 0) if counts.count is None else counts.count
    offset = start + (ellipsoid.restore(values) - start * whole) / rows
    offset = hold(plan, offset, counts)
    if plan.clamped:
        std = plan.noise_base[0].unscale * plan.noise_base[1] / rows
        return (
            (ellipsoid.center + offset, std) if final.combine is None else final.combine(ellipsoid.center + offset, std)
        )
    along = 1 / rows if ellipsoid.axes is None else np.sqrt((ellipsoid.axes**2).T @ (1 / rows**2))
    std = plan.scaled_std * along
    if final.combine is not None:
        return final.combine(ellipsoid.scaled(offset), std)
    return ellipsoid.center + offset, ellipsoid.unscale * std


def _publish(
    rounds: Rounds,
    plan: Plan,
    center: Floats,
    errors: Floats,
    counts: RowCounts,
    scaled: Floats,
    how: tuple[str, float | None],
) -> Release:
    method, clip_bias = how
    start = plan.ellipsoid.center
    rows = np.maximum(counts.rows, 1.0)
    whole = plan.statistic == "sum"
    times = rows if whole else np.ones(plan.d)
    with np.errstate(divide="ignore", over="ignore"):
        value = np.clip(center * times, -_MOST, _MOST)
        scale = np.where(errors > 0, 1 / np.maximum(errors * float(times.max()), _LEAST), 0.0)
    lever, absent = (place if whole else (center - place) / rows for place in (start, plan.absent_at))
    known = not plan.needs_no_count
    own = np.abs(absent) * counts.own if known and counts.own.any() else None
    shared = lever * counts.shared if known and counts.shared else None
    stretch = times / float(times.max()) if whole and (times != times[0]).any() else None
    noise = Noise(Ellipsoid(start, scale, plan.ellipsoid.axes), 1.0, shared, stretch, own)
    return Release(
        plan=plan,
        noisy=scaled,
        secure=rounds.session.secure,
        privacy_spent=rounds.privacy,
        learned=learned_facts(rounds, method, clip_bias),
        published=Published(value, noise, count_clipped(plan, counts, scaled), counts.count),
    )


def learned_facts(rounds: Rounds, method: str, clip_bias: float | None) -> dict[str, Any]:
    """What a release tells of the rounds before it."""
    magnitude = rounds.magnitude
    return {
        "method": method,
        "clip_bias": clip_bias,
        "magnitude": magnitude.tolist() if isinstance(magnitude, np.ndarray) else magnitude,
        "stated": dict(rounds.budget.stated),
        "rounds": [step.to_dict() for step in rounds.history],
        **({} if rounds.far is None else {"far": dict(rounds.far)}),
    }


def learned_rows(final: Final, center: Floats, errors: Floats | None, columns: Any) -> Rows:
    """Rows as learned; errors are stds of the center along the axes. Normal rows where no law of norms was learned."""
    axes = final.region.ellipsoid.axes
    spread = np.maximum(final.std, _LEAST)
    relative = np.ones_like(spread) if errors is None else np.minimum(errors / spread, 1e6)
    law = final.law or NormLaw(np.zeros(1), np.ones(1))
    scale = 1 / spread if final.scale is None else final.scale
    start = float(law.grid[0])
    known = LearnedRows(center, spread, scale, start, law.mass, relative, axes, columns)
    return known if final.law is not None else known.as_normal()
