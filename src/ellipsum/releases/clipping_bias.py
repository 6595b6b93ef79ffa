"""What clipping may hide: how much an interval has to widen, and when a release says that it cannot be trusted.

Everything here follows from noisy counts that were paid for, and from public numbers. docs/proofs/plans.md: [U7].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats, named
from ..regions.ellipsoid import Ellipsoid

_SURE = 4.0  # stds: a far octave enters the bound where its count is surely not noise; nearer ones earlier
_NEAREST, _FURTHER = 2.0, 0.5  # stds for the first octave, and for each one further
_ALWAYS = 2  # octaves: where only so many are told apart, both enter whatever their counts
_WARN = 6.0  # stds: a warning, which data inside its region gets with odds of one in 10^9
_SHARE = 0.05  # of the rows: so many must be clipped before a law counts as contradicted
_TIMES = 3.0  # times as many as the stated law gives
_FAR = 2  # octaves beyond the region: rows further out, where none are expected, are told even if they are few
_LISTED = 3
_MOST_TOLD = 20  # columns with a warning of their own


@dataclass(frozen=True)
class ClippingBias:
    """What clipping may have moved each column by, and the noise of that bound; both one per column."""

    bound: Floats
    std_of_bound: Floats
    warnings: tuple[str, ...] = ()
    undetected_rows: int = 0
    """Number of far outliers that the noise of the counts cannot reveal; the bound does not cover their effect."""


def measure_clipping_bias(plan: Any, counts: Any) -> ClippingBias:
    """What the counts of a release say of its rows."""
    few = _few(plan, counts)
    if counts.outside is None and counts.clipped is not None:
        return _rows(plan, counts, few)
    cells = () if counts.outside is None else _cells(plan, counts)
    return ClippingBias(np.zeros(plan.d), np.zeros(plan.d), (*cells, *few))


def _few(plan: Any, counts: Any) -> tuple[str, ...]:
    """Columns that hardly any row has, surely: not where the whole table is smaller than the noise of a count."""
    rows, stds = counts.rows, counts.stds
    few = rows < _SURE * stds
    if not few.any():
        return ()
    whole = float(plan.n) if plan.public_rows else float(np.median(rows))
    few &= (stds > 0) & (_WARN * stds < whole - rows)
    if not few.any():
        return ()
    return (f"too few rows have {_list(plan, few)} for a count above its noise: such a value says next to nothing.",)


def _cells(plan: Any, counts: Any) -> tuple[str, ...]:
    """Clamped cells: told, column by column, where surely some are."""
    columns = np.flatnonzero(counts.outside > plan.outside_limits)
    texts = []
    for j in columns[:_MOST_TOLD].tolist():
        share = min(float(counts.outside[j] / max(counts.rows[j], 1.0)), 1.0)
        texts.append(
            f"about {share:.2g} of the entries of {_name(plan, j)} lie outside its stated bounds and were clamped: "
            "the interval is for the clamped values. State wider bounds."
        )
    if columns.size > _MOST_TOLD:
        texts.append(f"entries of {columns.size - _MOST_TOLD} more columns lie outside their bounds and were clamped.")
    return tuple(texts)


def _name(plan: Any, j: int) -> str:
    return named(plan.columns[j] if plan.columns else f"x{j + 1}")


def cell_limits(stds: Floats) -> Floats:
    """Counts of cells outside that are surely not noise; without end where none is counted."""
    return np.where(stds > 0, _WARN * stds, np.inf)


def _rows(plan: Any, counts: Any, few: tuple[str, ...]) -> ClippingBias:
    """Rows clipped by their norm, by octave [U7]."""
    riders, found = plan.riders, counts.clipped
    std = float(plan.outside_stds[0])
    excess = np.ldexp(1.0, np.arange(1, riders.octaves + 1)) - riders.pull  # the far end of each octave
    excess[0] = 1.0  # rows in the first, and what is further out but too little to be seen: half each
    used = _used(found, std)
    if riders.octaves == _ALWAYS and not used[1]:
        excess[1] = 2.0**1.5 - riders.pull  # its middle
    used[: _ALWAYS if riders.octaves == _ALWAYS else 1] |= not plan.rows.firm
    length = float(np.sum(np.where(used, np.maximum(found, 0.0) * excess, 0.0)))
    spread = std * float(np.sqrt(np.sum(np.where(used, excess, 0.0) ** 2)))
    reach = plan.ellipsoid.reach
    if plan.statistic != "sum":
        reach = reach / np.maximum(counts.rows, 1.0)
    bias = length * reach
    unseen = max(math.floor(_SURE * std), 1)
    return ClippingBias(bias, spread * reach, (*_contradicted(plan, counts, bias, std), *few), unseen)


def _used(found: Floats, std: float) -> NDArray[np.bool_]:
    """Octaves up to the last that is told from noise, by itself or with the one after it [U7]."""
    stds = np.minimum(_NEAREST + _FURTHER * np.arange(found.size), _SURE)
    needed = std * stds
    seen = found > needed
    both = found[:-1] + found[1:] > np.sqrt(2) * needed[1:]
    seen[1:] |= both
    last = int(np.flatnonzero(seen)[-1]) if seen.any() else -1
    return np.arange(found.size) <= last


def _contradicted(plan: Any, counts: Any, bias: Floats, std: float) -> list[str]:
    """Where what was counted speaks against what was stated of the rows."""
    found = counts.clipped
    texts = []
    rows = _all_rows(plan, counts)
    sure, warn = _SURE * std, _WARN * std
    total = float(np.sum(np.where((found > sure) | (np.arange(found.size) == 0), found, 0.0)))
    many = total > warn and (plan.rows.firm or total > _SHARE * rows)
    expected = plan.outside_share * rows if many else 0.0
    if many and total - expected > warn and (plan.rows.firm or total > _TIMES * expected):
        law = "none" if plan.rows.firm else f"{expected / rows:.2g}"
        texts.append(
            f"about {min(total / rows, 1.0):.2g} of the rows were clipped where what is stated of them gives {law}: "
            f"the {plan.statistic} may be off by up to {_range(bias)}. State wider rows, or learn them."
        )
    far = float(np.sum(np.where(found[_FAR:-1] > warn, found[_FAR:-1], 0.0)))
    if not texts and far > 0 and not plan.rows.firm and far > _TIMES * _expected_far(plan, rows):
        texts.append(
            f"about {far:.2g} rows lie more than {2**_FAR} times as far out as rows were clipped, where hardly any "
            f"were expected: the {plan.statistic} may be off by up to {_range(bias)}. Check units and outliers."
        )
    if found[-1] > warn:
        texts.append(
            f"rows lie more than {2.0 ** (found.size - 1):.4g} times beyond the region that was stated: nothing bounds "
            f"what the {plan.statistic} is off by. Check units and outliers."
        )
    return texts


def _all_rows(plan: Any, counts: Any) -> float:
    """The number of all rows, whatever cells they lack: public, or the largest count; at least 1."""
    return max(float(plan.n) if plan.public_rows else float(np.max(counts.rows)), 1.0)


def _expected_far(plan: Any, rows: float) -> float:
    """How many of the rows what is known of them puts beyond so many radii."""
    region = plan.ellipsoid
    return float(plan.rows.outside_share(Ellipsoid(region.center, region.scale / 2**_FAR, region.axes)) * rows)


def _range(bias: Floats) -> str:
    low, high = float(bias.min()), float(bias.max())
    return f"{high:.3g}" if low > 0.9 * high else f"{low:.3g} to {high:.3g}, by column"


def _list(plan: Any, chosen: NDArray[np.bool_]) -> str:
    columns = np.flatnonzero(chosen)
    more = f" and {columns.size - _LISTED} more" if columns.size > _LISTED else ""
    return ", ".join(_name(plan, j) for j in columns[:_LISTED].tolist()) + more
