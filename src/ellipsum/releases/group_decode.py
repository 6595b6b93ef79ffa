"""What follows from the statistics of many groups: shrinkage, and what clipping may have moved learned groups by."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import Floats
from ..numerics.roots import root
from ..util.structural_equality import Alike

_PLACES = 256  # distances at which a loss is worked out, for as many groups as there are
_LEAST_GROUPS = 4  # James-Stein shrinkage towards a mean that is estimated helps from here on


@dataclass(frozen=True)
class Centers(Alike):
    """Centers of groups, (groups, d), where each has its own [G10]; reach: the farthest that one may be off, scaled."""

    places: Floats
    reach: float

    def chosen(self, order: Any) -> Centers:
        return replace(self, places=self.places[order])


def clip_bias(plan: Any, value: Floats, stds: Floats, centers: Centers | None = None) -> Floats:
    """[G9] By how much clipping is expected to have moved each mean at most, of groups of learned rows; else 0.

    A group's rows are taken to lie about their mean as all rows lie about the center; value: (groups, d) means. A group
    that has its own center is taken to lie as far from it as clipping lets it seem, noise included [G10].
    """
    ellipsoid = plan.ellipsoid
    if plan.rows.kind != "learned" or plan.statistic == "sum" or not len(value):
        return np.zeros_like(value)
    offset = value - (ellipsoid.center if centers is None else centers.places)
    seen = far = lengths_of(ellipsoid, offset)
    if centers is not None:
        far = _distances(plan, seen + spread_of(plan, stds), centers.reach)
    places = np.linspace(0.0, float(far.max()), _PLACES)
    lost, beyond = _lost(plan, places)
    along = (np.interp(far, places, lost) * far / np.maximum(seen, 1e-300))[:, None] * np.abs(offset)
    bias: Floats = along + np.interp(far, places, beyond)[:, None] * ellipsoid.reach / math.sqrt(ellipsoid.width)
    return bias


def _distances(plan: Any, seen: Floats, reach: float) -> Floats:
    """[G10] How far groups lie from their centers that seem to lie so far off: no farther than their reach."""
    places = np.linspace(0.0, reach, 4 * _PLACES)
    shown = np.maximum.accumulate(places * (1 - _lost(plan, places)[0]))
    far: Floats = np.maximum(np.interp(seen, shown, places), seen)
    return far


def spread_of(plan: Any, stds: Floats) -> Floats:
    """The length of the noise of each group's mean, in the scaled space; stds: (groups, d)."""
    scale, axes = plan.ellipsoid.scale, plan.ellipsoid.axes
    if axes is not None:
        largest = float(stds.max())  # squares may leave the range of doubles
        stds = largest * np.sqrt((stds / largest) ** 2 @ axes**2)
    lengths: Floats = np.linalg.norm(stds * scale, axis=1)
    return lengths


def lengths_of(ellipsoid: Any, offset: Floats) -> Floats:
    """Of offsets, in the scaled space."""
    along = offset if ellipsoid.axes is None else offset @ ellipsoid.axes
    lengths: Floats = np.linalg.norm(along * ellipsoid.scale, axis=1)
    return lengths


def _lost(plan: Any, places: Floats) -> tuple[Floats, Floats]:
    """[G9] Of groups whose means are so far out: the share of that way that clipping takes, and how much in all."""
    law, rows = plan.rows.norm_law, plan.rows
    radii = law.radii * float(plan.ellipsoid.scale[0] / rows.scale[0])
    norms = np.maximum(np.hypot(places[:, None], radii), 1.0)
    shrunk_by = (1 - 1 / norms) + np.where(norms > 1, radii**2 / plan.ellipsoid.width / norms**3, 0.0)
    return np.minimum(shrunk_by @ law.mass, 1.0), (norms - 1) @ law.mass


def shrunk(value: Floats, stds: Floats) -> Floats:
    """[G7] Group means pulled towards their weighted mean, column by column, by what noise alone explains.

    The spread between groups is what their distances exceed their noise by; each mean keeps the share of its own
    distance that this spread has in spread and noise together.
    """
    groups = len(value)
    if groups < _LEAST_GROUPS:
        return value.copy()
    out = value.copy()
    for j in range(value.shape[1]):
        squares = stds[:, j] ** 2
        if not (squares > 0).all():
            continue
        between = _between(value[:, j], squares)
        weights = 1 / (squares + between)
        middle = float(weights @ value[:, j] / weights.sum())
        share = (groups - 3) / (groups - 1) * squares / (squares + between)
        out[:, j] = value[:, j] + share * (middle - value[:, j])
    return out


def _between(value: Floats, squares: Floats) -> float:
    """The variance between groups for which their weighted squared distances are as many as groups less one."""

    def excess(between: float) -> float:
        weights = 1 / (squares + between)
        middle = weights @ value / weights.sum()
        return float(weights @ (value - middle) ** 2) - (len(value) - 1)

    if excess(0.0) <= 0:
        return 0.0
    most = float(np.var(value)) * len(value) + float(squares.max())
    while excess(most) > 0:
        most *= 4
    return root(excess, 0.0, most, 1e-10 * most)
