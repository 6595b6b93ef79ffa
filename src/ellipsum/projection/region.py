"""What a projection measures and how far a row can move: from what is known about rows to a clip region.

A projection keeps lengths, so the region is a ball in the metric whose distances are wanted [J7]:
"original", the units of the data; "scaled", every column (or principal axis) in units of its own spread.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .. import codec
from ..errors import Floats, UsageError, choice, open_unit, positive
from ..grid import ellipsoid_map
from ..row_maps import EllipsoidMap
from ..rows import Ball, Box, Normal, Rows, Unknown
from ..shape import Ellipsoid
from .matrix import row_grid_bits

METRICS = ("original", "scaled")


@dataclass(frozen=True)
class Region:
    """Rows are measured as v = scale * (axes^T (x - center)) and clipped to ‖v‖ <= radius.

    scale is 0 along directions without spread; axes None means the coordinates themselves.
    """

    center: Floats
    scale: Floats
    radius: float
    metric: str
    axes: Floats | None = None

    def __post_init__(self) -> None:
        positive("radius", self.radius, "Rescale the columns.")
        with np.errstate(over="ignore", divide="ignore"):
            Ellipsoid(self.center, self.scale / self.radius, self.axes).check()
        if not (math.isfinite(4 * self.radius * self.radius) and self.scale.any()):
            raise UsageError("the region's squared distances leave the range of doubles. Rescale the columns.")

    @property
    def width(self) -> int:
        return int(self.scale.size)

    @property
    def largest_squared_distance(self) -> float:
        """Between any two clipped rows."""
        return 4 * self.radius**2

    @cached_property
    def row_map(self) -> EllipsoidMap:
        """Clip to the region and round to the grid; the rows' half of the exact product [J2]."""
        return ellipsoid_map(Ellipsoid(self.center, self.scale / self.radius, self.axes), row_grid_bits(self.width))

    def measured_center(self) -> Floats:
        """The centre in the metric, as an offset from the origin."""
        turned = self.center if self.axes is None else self.axes.T @ self.center
        return self.scale * turned

    def to_dict(self) -> dict[str, Any]:
        return {
            "center": self.center.tolist(),
            "scale": self.scale.tolist(),
            "radius": self.radius,
            "metric": self.metric,
            "axes": None if self.axes is None else self.axes.tolist(),
        }

    @classmethod
    def from_dict(cls, found: Any) -> Region:
        with codec.Fields(found, "the projection's region has missing, unknown or wrong fields.") as fields:
            return cls(
                fields.take("center", codec.numbers),
                fields.take("scale", codec.numbers),
                fields.take("radius", codec.number),
                fields.take("metric", codec.word(*METRICS)),
                fields.maybe("axes", codec.matrix),
            )


def region_of(rows: Rows, d: int, metric: str, n: int | None, clip_probability: float | None) -> Region:
    """The clip region of rows with a bound; Normal rows are clipped with `clip_probability` (default 1/n) each."""
    choice("metric", metric, METRICS)
    if isinstance(rows, Unknown):
        raise UsageError(
            "A projection needs rows with a bound, got Unknown. State Ball, Box or Normal rows, "
            "or learn them first with es.learn."
        )
    if not isinstance(rows, (Ball, Box, Normal)):
        raise UsageError(f"rows must be one of Ball, Box, Normal, got {type(rows).__name__}.")
    known = rows.resolve(d)
    if isinstance(known, Normal):
        return _normal(known, metric, n, clip_probability)
    if clip_probability is not None:
        raise UsageError("clip_probability is for Normal rows. Leave it out.")
    return _ball(known, d, metric) if isinstance(known, Ball) else _box(known, metric)


def _ball(rows: Ball, d: int, metric: str) -> Region:
    center = np.asarray(rows.center, float)
    if metric == "scaled":
        return Region(center, np.full(d, 1 / rows.radius), 1.0, metric)
    return Region(center, np.ones(d), rows.radius, metric)


def _box(rows: Box, metric: str) -> Region:
    """The ball through the corners: no region that holds the box has a smaller diameter [J7]."""
    lower, upper = np.asarray(rows.lower, float), np.asarray(rows.upper, float)
    half = (upper - lower) / 2
    return _through(lower + half, half, half, metric, None, 1.0)


def _normal(rows: Normal, metric: str, n: int | None, clip_probability: float | None) -> Region:
    """The ball that a row leaves with probability clip_probability, the centre's uncertainty included."""
    from ..chisquare import WeightedChiSquare

    if clip_probability is None:
        if n is None:
            raise UsageError("n is missing. State n= or clip_probability= for Normal rows.")
        clip_probability = 1 / n if n > 1 else 0.5
    odds = open_unit("clip_probability", clip_probability)
    axes: Floats | None
    if rows.cov is not None:
        std, axes = rows.axes
        live = std > 0
        std, axes, errors = std[live], axes[:, live], np.asarray(rows.center_error, float)[live]
    else:
        std, axes, errors = np.asarray(rows.std, float), None, np.asarray(rows.center_error, float)
    wander = 1 + errors**2
    spread = wander[std > 0] if metric == "scaled" else (std**2 * wander)[std > 0]
    largest = float(spread.max())
    reach = math.sqrt(largest) * math.sqrt(float(WeightedChiSquare(spread / largest).isf(odds)))
    if metric == "original" and axes is not None:
        # lengths need no rotation; a covariance only decides how long rows are
        return Region(np.asarray(rows.center, float), np.ones(len(axes)), reach, metric)
    return _through(np.asarray(rows.center, float), std, None, metric, axes, reach)


def _through(
    center: Floats, spread: Floats, corner: Floats | None, metric: str, axes: Floats | None, reach: float
) -> Region:
    live = spread > 0
    if not live.any():
        raise UsageError("rows have no spread in any column, so there is no distance to project. Check the bounds.")
    with np.errstate(divide="ignore"):
        scale = np.where(live, 1 / spread if metric == "scaled" else 1.0, 0.0)
    if corner is None:
        return Region(center, scale, reach, metric, axes)
    largest = float(corner.max())
    length = largest * float(np.linalg.norm(corner / largest))
    return Region(center, scale, math.sqrt(np.count_nonzero(live)) if metric == "scaled" else length, metric, axes)
