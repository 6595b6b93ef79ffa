"""Several releases of one request, as one: each column's values weighed by the inverse variance of their noise [O5]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

import numpy as np

from ... import GroupRelease, Privacy, Release, UsageError, compose
from ...display.wording import describe_guarantee, format_interval, format_number
from ...errors import Floats, shown
from ...releases.base import StatisticRelease

Combinable: TypeAlias = Release | GroupRelease
_LEVEL = 0.95
_NORMAL = 1.959963984540054  # The quantile of the normal distribution, which a sum of noises approaches.


@dataclass(frozen=True)
class Combined:
    """One value for several releases. labels: the group and column of each line, its value, and its 95% interval."""

    count: int
    lines: tuple[tuple[str, str, str], ...]
    guarantee: str


def can_combine(releases: Sequence[StatisticRelease]) -> TypeGuard[Sequence[Combinable]]:
    """Whether there are several, all of one plan except the budget, and none with learned bounds [O5]."""
    if len(releases) < 2 or not all(map(combines, releases)):
        return False
    return len({np.shape(release.value) for release in releases}) == 1


def combines(release: StatisticRelease) -> TypeGuard[Combinable]:
    """Whether others like it can be joined with it: learned regions differ, and so do groups that are not listed."""
    if isinstance(release, GroupRelease):
        return release.learned is None and release.plan.grouping.keys is not None
    return isinstance(release, Release) and release.learned is None


def combine(releases: Sequence[StatisticRelease]) -> Combined:
    """[O5] The weighted mean of several releases, with intervals, and what all of them together guarantee."""
    if not can_combine(releases):
        raise UsageError("These releases cannot be combined.")
    weights = _weights([_sum_stds(release) for release in releases])
    value = _weighted_sum(weights, [release.raw_value for release in releases])
    halves = [_halves(release) for release in releases]
    noisy = np.sqrt(_weighted_sum(weights**2, [noise**2 for noise, _ in halves]))
    half = noisy + _weighted_sum(weights, [bias for _, bias in halves])
    spent = compose([release.privacy for release in releases])
    lines = zip(_labels(releases[0]), value.ravel(), half.ravel(), strict=True)
    return Combined(
        len(releases), tuple(_line(*line) for line in lines), f"{_pair(releases, spent)}{describe_guarantee(spent)}"
    )


def _pair(releases: Sequence[Combinable], spent: Privacy) -> str:
    """Epsilon at the largest requested delta."""
    deltas = [release.stated["delta"] for release in releases if "delta" in release.stated]
    if not deltas:
        return ""
    return f"epsilon {spent.epsilon(max(deltas)):.4g} at delta {max(deltas):g}; "


def _sum_stds(release: Combinable) -> Floats:
    """The std of the noise of each column's sum: a public number."""
    plan = release.plan.one if isinstance(release, GroupRelease) else release.plan
    ellipsoid, std = plan.noise_base
    stds: Floats = ellipsoid.reach * std
    return stds


def _weights(stds: Sequence[Floats]) -> Floats:
    """(releases, d), adding up to 1 in each column; equal where there is no noise."""
    precise = np.stack([1 / np.where(std > 0, std, 1.0) ** 2 for std in stds])
    shares: Floats = precise / precise.sum(axis=0)
    return shares


def _weighted_sum(weights: Floats, parts: Sequence[Floats]) -> Floats:
    total: Floats = np.sum([w * np.asarray(part) for w, part in zip(weights, parts, strict=True)], axis=0)
    return total


def _halves(release: Combinable) -> tuple[Floats, Floats]:
    """Half the width of each interval due to noise, at least that of normal noise, and the bound on clipping bias."""
    half = release.half_widths(_LEVEL)
    bias = np.zeros_like(half) if isinstance(release, GroupRelease) else release.clipping_bias.bound
    wide = (
        release.standard_error
        if isinstance(release, GroupRelease)
        else np.hypot(release.noise_std, release.clipping_bias.std_of_bound)
    )
    return np.maximum(half - bias, _NORMAL * wide), bias


def _labels(release: Combinable) -> list[str]:
    names = [shown(name) for name in release.names()]
    if release.statistic == "describe":
        names = [f"mean of {name}" for name in names]
    if isinstance(release, GroupRelease):
        return [f"{', '.join(map(shown, key))}: {name}" for key in release.keys for name in names]
    return names


def _line(label: str, value: float, half: float) -> tuple[str, str, str]:
    std = float(half) / _NORMAL
    return label, format_number(float(value), std), format_interval(np.array([value - half, value + half]), std)
