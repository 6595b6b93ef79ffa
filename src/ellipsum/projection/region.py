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

from ..errors import Floats, UsageError, choice, positive
from ..regions.ellipsoid import Ellipsoid
from ..row_maps.grid import ellipsoid_map
from ..row_maps.maps import EllipsoidMap
from ..rows import Normal, Rows, parse_bounds
from ..util import json_codec
from .matrix import row_grid_bits

METRICS = ("original", "scaled")


@dataclass(frozen=True)
class ProjectionRegion:
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
        """The center in the metric, as an offset from the origin."""
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
    def from_dict(cls, saved: Any) -> ProjectionRegion:
        with json_codec.Fields(saved, "the projection's region has missing, unknown or wrong fields.") as fields:
            return cls(
                fields.take("center", json_codec.numbers),
                fields.take("scale", json_codec.numbers),
                fields.take("radius", json_codec.number),
                fields.take("metric", json_codec.word(*METRICS)),
                fields.maybe("axes", json_codec.matrix),
            )


def region_of(rows: Rows, d: int, metric: str, n: int | None, clip_probability: float | None) -> ProjectionRegion:
    """The clip region of rows with a bound; Normal rows are clipped with `clip_probability` (default 1/n) each."""
    choice("metric", metric, METRICS)
    if clip_probability is not None and rows.kind != Normal.kind:
        raise UsageError("clip_probability is for Normal rows. Leave it out.")
    reach = parse_bounds(rows).resolve(d).reach(d, metric, n, clip_probability)
    return ProjectionRegion(reach.center, reach.scale, reach.radius, metric, reach.axes)
