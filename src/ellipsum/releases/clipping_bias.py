"""Bounds on the clipping bias, and warnings of it.

Both are computed from noisy counts that the guarantee covers, and from public numbers. docs/proofs/plans.md: [U7].
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..display.wording import describe_bounds, percent
from ..errors import Floats, named
from ..request.request import SUMS
from .decode import Counts
from .numbers import PublicNumbers, VectorNumbers

_SURE = 4.0  # stds: a far distance class enters the bound if its count exceeds this; nearer classes need less.
_NEAREST, _FURTHER = 2.0, 0.5  # stds for the first distance class, and the increase for each next class.
_ALWAYS = 2  # If there are only two distance classes, both always enter the bound.
_WARN = 6.0  # stds: a larger count raises a warning; for data inside its region with probability 1e-9.
_SHARE = 0.05  # A distribution counts as contradicted only if this share of the rows is clipped.
_TIMES = 3.0  # Ratio to the share that the given distribution implies.
_FAR = 2  # From this distance class on, even a few unexpected rows raise a warning.
_LISTED = 3
_MOST_WARNINGS = 20  # The largest number of columns with a warning of their own.


@dataclass(frozen=True)
class ClippingBias:
    """Bound on the clipping bias of each column, and the noise of this bound; arrays with one number per column."""

    bound: Floats
    std_of_bound: Floats
    expected: Floats
    """Expected root mean square error due to clipping, for rows as described."""
    unexplained: Floats
    """The part of the bound that exceeds the effect of rows as described, according to the counts."""
    std_of_unexplained: Floats
    warnings: tuple[str, ...] = ()
    undetected_rows: int = 0
    """This number of clamped rows, or of far outliers, may remain undetected. The bound does not cover them."""


def no_clipping_bias(d: int, warnings: tuple[str, ...] = (), undetected_rows: int = 0) -> ClippingBias:
    """No bias: no row was clipped, or intervals are for clamped values."""
    zeros = np.broadcast_to(0.0, d)
    return ClippingBias(zeros, zeros, zeros, zeros, zeros, warnings, undetected_rows)


def measure_clipping_bias(plan: VectorNumbers, counts: Counts) -> ClippingBias:
    """Bound the clipping bias by the noisy counts of a release, and collect its warnings."""
    few = _few_rows(plan, counts)
    if counts.clipped is not None:
        return _clipped_rows(plan, counts, counts.clipped, few)
    test = plan.clamping_test
    bias = no_clipping_bias(plan.d, (*_clamped(plan, counts), *few), 0 if test is None else test.undetected_rows)
    if plan.clamped:
        return bias
    expected = plan.sum_clipping_errors  # Rows are clipped by their norm and not counted.
    return ClippingBias(
        bias.bound, bias.bound, _of_statistic(plan, counts, expected), bias.bound, bias.bound, bias.warnings
    )


def _few_rows(plan: VectorNumbers, counts: Counts) -> tuple[str, ...]:
    """Warn of columns with almost no values, unless the whole table is smaller than the noise of a count."""
    rows, stds = counts.rows, counts.stds
    few = rows < _SURE * stds
    if not few.any():
        return ()
    whole = float(plan.n or 0) if plan.public_rows else float(np.median(rows))
    few &= (stds > 0) & (_WARN * stds < whole - rows)
    if not few.any():
        return ()
    columns, noun = list_columns(plan, few), "Column" if np.count_nonzero(few) == 1 else "Columns"
    return (
        f"{noun} {columns}: too few non-missing values. The noisy count cannot be told from 0, so the estimate is "
        "meaningless. Check whether the column holds numbers.",
    )


# Clamped values -----------------------------------------------------------------------------------------


def _clamped(plan: VectorNumbers, counts: Counts) -> tuple[str, ...]:
    """Warn of clamped values that noise alone does not explain, by column if the counts identify columns."""
    test, rows = plan.clamping_test, counts.outside_rows
    if test is None or rows is None or rows <= test.most_rows:
        return ()
    lower, upper = plan.rows.bounds()
    live = np.flatnonzero(lower < upper)
    if live.size == 1:
        return (_clamped_column(plan, int(live[0]), rows, counts),)
    columns = live[:0] if counts.outside is None else np.flatnonzero(counts.outside > test.most_values)
    if counts.outside is None or not columns.size:
        share = percent(rows / _all_rows(plan, counts))
        return (
            f"About {share} of the rows have a value outside the bounds of some column, and it was clamped. The counts "
            "do not show which column. Estimates are those of the clamped values and may be biased. Check the units, "
            "or use wider bounds.",
        )
    texts = [_clamped_column(plan, j, counts.outside[j], counts) for j in columns[:_MOST_WARNINGS].tolist()]
    if columns.size > _MOST_WARNINGS:
        more = columns.size - _MOST_WARNINGS
        texts.append(f"Values of {more:,} more columns are outside their bounds and were clamped.")
    return tuple(texts)


def _clamped_column(plan: VectorNumbers, j: int, values: float, counts: Counts) -> str:
    share = percent(values / max(float(counts.rows[j]), 1.0))
    return (
        f"About {share} of the values of {column_name(plan, j)} are outside the bounds {describe_bounds(plan.rows, j)} "
        "and were clamped. The estimate is that of the clamped values and may be biased. Check the units, or use wider "
        "bounds."
    )


# Clipped rows -------------------------------------------------------------------------------------------


def _clipped_rows(plan: VectorNumbers, counts: Counts, clipped: Floats, few: tuple[str, ...]) -> ClippingBias:
    """Bound the bias of rows that were clipped by their norm, by distance class [U7]."""
    auxiliary, std = plan.auxiliary, float(plan.outside_stds[0])
    excess = np.ldexp(1.0, np.arange(1, auxiliary.octaves + 1)) - auxiliary.pull  # The far end of each class.
    excess[0] = 1.0  # Half for rows of the first class, half for rows further out that counts do not show.
    used = _used(clipped, std)
    if auxiliary.octaves == _ALWAYS and not used[1]:
        excess[1] = 2.0**1.5 - auxiliary.pull  # The middle of the second class.
    used[: _ALWAYS if auxiliary.octaves == _ALWAYS else 1] |= not plan.rows.is_hard_bound
    reach = _of_statistic(plan, counts, plan.ellipsoid.reach)
    length, spread = _lengths(clipped, used, excess, std)
    more = clipped - plan.clipped_shares * _all_rows(plan, counts)
    more_length, more_spread = _lengths(more, _used(more, std), excess, std)
    bound, undetected = length * reach, max(math.floor(_SURE * std), 1)
    contradicted, learned = _contradicted(plan, counts, clipped, bound), plan.rows.learned_bias
    if learned is not None:  # [L11]
        learned = learned * (np.maximum(counts.rows, 1.0) if plan.statistic in SUMS else 1.0)
        bound = np.maximum(bound, learned)
        if not contradicted:
            zeros = np.broadcast_to(0.0, plan.d)
            return ClippingBias(learned, zeros, learned / 2, zeros, zeros, few, undetected)
    expected = _of_statistic(plan, counts, plan.sum_clipping_errors)
    return ClippingBias(
        bound, spread * reach, expected, more_length * reach, more_spread * reach, (*contradicted, *few), undetected
    )


def _of_statistic(plan: VectorNumbers, counts: Counts, lengths: Floats) -> Floats:
    """Convert lengths of a sum to units of the statistic."""
    return lengths if plan.statistic in SUMS else lengths / np.maximum(counts.rows, 1.0)


def _lengths(clipped: Floats, used: NDArray[np.bool_], excess: Floats, std: float) -> tuple[float, float]:
    """The sum of the distances of clipped rows from the region, and the noise of this sum."""
    length = float(np.sum(np.where(used, np.maximum(clipped, 0.0) * excess, 0.0)))
    return length, std * float(np.sqrt(np.sum(np.where(used, excess, 0.0) ** 2)))


def _used(clipped: Floats, std: float) -> NDArray[np.bool_]:
    """Classes up to the last whose count, or the sum of it and the next, exceeds the noise [U7]."""
    stds = np.minimum(_NEAREST + _FURTHER * np.arange(clipped.size), _SURE)
    needed = std * stds
    seen = clipped > needed
    both = clipped[:-1] + clipped[1:] > np.sqrt(2) * needed[1:]
    seen[1:] |= both
    last = int(np.flatnonzero(seen)[-1]) if seen.any() else -1
    return np.arange(clipped.size) <= last


def _contradicted(plan: VectorNumbers, counts: Counts, clipped: Floats, bound: Floats) -> list[str]:
    """Warn if the counts contradict what is known of the rows."""
    texts, rows, std = [], _all_rows(plan, counts), float(plan.outside_stds[0])
    sure, warn, bounds = _SURE * std, _WARN * std, plan.rows
    bias = f"Bias of the {plan.statistic}: up to {_range(bound)}."
    total = float(np.sum(np.where((clipped > sure) | (np.arange(clipped.size) == 0), clipped, 0.0)))
    many = total > warn and (bounds.is_hard_bound or total > _SHARE * rows)
    expected = float(plan.clipped_shares.sum()) * rows if many else 0.0
    if many and total - expected > warn and (bounds.is_hard_bound or total > _TIMES * expected):
        shares = percent(total / rows), percent(expected / rows)
        texts.append(
            f"About {shares[0]} of the rows were clipped; {shares[1]} was expected from {bounds.described_by}. "
            f"{bias} {bounds.remedy}"
        )
    far = float(np.sum(np.where(clipped[_FAR:-1] > warn, clipped[_FAR:-1], 0.0)))
    if (
        not texts
        and far > 0
        and not bounds.is_hard_bound
        and far > _TIMES * float(plan.clipped_shares[_FAR:].sum()) * rows
    ):
        texts.append(
            f"About {far:,.2g} rows are more than {2**_FAR} clipping radii from the center, where hardly any were "
            f"expected. {bias} Check units and outliers."
        )
    if clipped[-1] > warn:
        texts.append(
            f"Some rows are more than {2.0 ** (clipped.size - 1):,.4g} clipping radii from the center. The bias of the "
            f"{plan.statistic} cannot be bounded. Check units and outliers."
        )
    return texts


def _all_rows(plan: VectorNumbers, counts: Counts) -> float:
    """The number of all rows: public, or the largest count of a column; at least 1."""
    return max(float(plan.n or 0) if plan.public_rows else float(np.max(counts.rows)), 1.0)


def _range(bound: Floats) -> str:
    low, high = float(bound.min()), float(bound.max())
    return f"{high:.3g}" if low > 0.9 * high else f"{low:.3g} to {high:.3g}, by column"


def column_name(plan: PublicNumbers, j: int) -> str:
    return named(plan.columns[j] if plan.columns else f"x{j + 1}")


def list_columns(plan: PublicNumbers, chosen: NDArray[np.bool_]) -> str:
    columns = np.flatnonzero(chosen)
    more = f" and {columns.size - _LISTED} more" if columns.size > _LISTED else ""
    return ", ".join(column_name(plan, j) for j in columns[:_LISTED].tolist()) + more
