"""The clip region, noise and expected errors of a projection, before any budget is spent, and the choice of k.

A projection keeps lengths, so the region is a ball in the metric of the distances [J7]: "original", the units of the
data; "scaled", every column (or principal axis) in units of its own standard deviation or half-width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..display.document import Document
from ..display.result import Printed
from ..display.wording import many
from ..errors import Floats, UsageError, choice, columns_of, positive, whole
from ..numerics.rounding import round_up, sqrt_up
from ..privacy.budget import Budget
from ..privacy.guarantee import Privacy
from ..regions.ellipsoid import Ellipsoid
from ..request.documentation import public
from ..row_maps.maps import EllipsoidMap, ellipsoid_map
from ..rows import Rows, parse_bounds
from ..util import json_codec
from .curve import CALIBRATIONS, ProjectionPrivacy, certified_scale
from .matrix import MATRIX_STD, matrix_excess, row_grid_bits, unit

METRICS = ("original", "scaled")
ADVERSARIES = ("oblivious", "adaptive")


class ProjectionWarning(UserWarning):
    """Warns that a projection has more columns than the data, or that its distances are useless."""


@dataclass(frozen=True)
class ProjectionRegion:
    """Rows are measured as v = scale * (axes^T (x - center)) and clipped to ‖v‖ <= radius.

    scale is 0 along directions without spread; axes is None where the coordinates are the axes.
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
            raise UsageError("The squared distances in the region exceed the range of doubles. Rescale the columns.")

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
    def from_dict(cls, saved: object) -> ProjectionRegion:
        with json_codec.Fields(saved, "The projection's region has missing, unknown or wrong fields.") as fields:
            return cls(
                fields.take("center", json_codec.numbers),
                fields.take("scale", json_codec.numbers),
                fields.take("radius", json_codec.number),
                fields.take("metric", json_codec.word(*METRICS)),
                fields.maybe("axes", json_codec.matrix),
            )


# Noise --------------------------------------------------------------------------------------------------


def oblivious_noise(region: ProjectionRegion, privacy: ProjectionPrivacy) -> float:
    """The least double s with s * scale >= diameter * MATRIX_STD * sqrt(k), in grid units [J1][J2]."""
    needed = region.row_map.body.diameter * Fraction(MATRIX_STD) * Fraction(sqrt_up(Fraction(privacy.k)))
    return round_up(needed / Fraction(privacy.scale))


def adaptive_noise(region: ProjectionRegion, privacy: Privacy, norm: Fraction) -> float:
    """The least double s with s * mu >= diameter * ‖matrix‖_2, in grid units [J6]."""
    return round_up(region.row_map.body.diameter * norm / Fraction(privacy.mu))


def needed_noise(
    region: ProjectionRegion, guarantee: ProjectionPrivacy | Privacy, norm: Callable[[], Fraction]
) -> float:
    """The noise of a guarantee in grid units; norm: of the matrix, computed if the guarantee depends on it."""
    if isinstance(guarantee, ProjectionPrivacy):
        return oblivious_noise(region, guarantee)
    return adaptive_noise(region, guarantee, norm())


def noise_std_of(region: ProjectionRegion, k: int, noise_units: float) -> float:
    """Standard deviation of the noise in the units of the metric."""
    std = math.ldexp(noise_units, -region.row_map.grid_bits) * region.radius * unit(k)
    if not math.isfinite(4 * k * std * std):
        raise UsageError("The noise of this projection exceeds the range of doubles. Rescale the columns.")
    return std


@dataclass(frozen=True)
class ProjectionOptions:
    """The options that a projection and its forecast share; arguments as in `project`."""

    bounds: Rows
    budget: Budget
    adversary: str | None = None
    calibration: str = "exact"
    metric: str = "original"

    def __post_init__(self) -> None:
        choice("calibration", self.calibration, CALIBRATIONS)
        choice("metric", self.metric, METRICS)
        if self.adversary is not None:
            choice("adversary", self.adversary, ADVERSARIES)
        if self.budget.pair is not None and not self.budget.pair[1]:
            raise UsageError("delta must be above 0: a projection adds Gaussian noise.")
        if self.adversary == "adaptive" and self.calibration != "exact":
            raise UsageError(f"calibration={self.calibration!r} needs a fresh matrix. Use adversary='oblivious'.")

    def region(self, d: int, n: int | None) -> ProjectionRegion:
        """The clip region; a row of Normal is clipped with probability `clip_probability` (default 1/n)."""
        reach = parse_bounds(self.bounds).resolve(d).reach(d, self.metric, n)
        return ProjectionRegion(reach.center, reach.scale, reach.radius, self.metric, reach.axes)

    def guarantee(self, region: ProjectionRegion, k: int, unit: str = "row") -> ProjectionPrivacy | Privacy:
        """The guarantee against the adversary; by default against the one that is expected to need less noise.

        Sizes and the budget alone decide: the average over the matrix would not hold if the drawn matrix decided.
        """
        if self.adversary is not None or self.calibration != "exact":
            return self._adaptive(unit) if self.adversary == "adaptive" else self._oblivious(region, k, unit)
        if self.budget.pair is None:
            return self._adaptive(unit)
        strict, average = self._adaptive(unit), self._oblivious(region, k, unit)
        typical = adaptive_noise(region, strict, typical_norm(region.width, k))
        return strict if typical <= oblivious_noise(region, average) else average

    def _adaptive(self, unit: str) -> Privacy:
        return Privacy(self.budget.mu, 0.0, "replace", unit)

    def _oblivious(self, region: ProjectionRegion, k: int, unit: str) -> ProjectionPrivacy:
        if self.budget.pair is None:
            raise UsageError(
                "adversary='oblivious' needs a budget in epsilon= and delta=, since its privacy curve is not that of "
                "any mu or rho. Use adversary='adaptive' for this budget."
            )
        excess = matrix_excess(region.width)
        epsilon, delta = self.budget.pair
        scale = certified_scale(epsilon, delta, k, excess, self.calibration)
        return ProjectionPrivacy(k, scale, excess, delta, unit)

    def forecast(self, region: ProjectionRegion, n: int | None, k: int) -> ProjectionForecast:
        """The forecast for a region."""
        guarantee = self.guarantee(region, k)
        units = needed_noise(region, guarantee, lambda: typical_norm(region.width, k))
        std, direct = noise_std_of(region, k, units), 2 * region.radius / self.budget.mu
        against = adversary_of(guarantee)
        return ProjectionForecast(n, region.center.size, k, region.radius, std, against, self.calibration, direct)

    def best_forecast(self, region: ProjectionRegion, n: int | None, distance: float | None) -> ProjectionForecast:
        """The forecast of the k, at most d, with the smallest error for rows `distance` apart."""
        apart = math.sqrt(2) * region.radius if distance is None else positive("distance", distance)
        squared = apart * apart
        if not math.isfinite(squared):
            raise UsageError("The square of distance exceeds the range of doubles. Rescale the columns.")
        forecasts: dict[int, ProjectionForecast] = {}

        def error(k: int) -> float:
            if k not in forecasts:
                forecasts[k] = self.forecast(region, n, k)
            return forecasts[k].distance_error(squared)

        low, high = 1, region.width
        while high - low > 2:  # The error falls, then rises.
            left, right = low + (high - low) // 3, high - (high - low) // 3
            if error(left) <= error(right):
                high = right
            else:
                low = left
        return forecasts[min(range(low, high + 1), key=error)]


def adversary_of(guarantee: ProjectionPrivacy | Privacy) -> str:
    return "oblivious" if isinstance(guarantee, ProjectionPrivacy) else "adaptive"


def typical_norm(width: int, k: int) -> Fraction:
    """About the largest singular value of a drawn matrix (its mean is below this)."""
    return Fraction(MATRIX_STD * (math.sqrt(width) + math.sqrt(k)))


# Forecasts ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class ProjectionForecast(Printed):
    """The public numbers of a projection and the errors that follow from them.

    Distances are squared and in the units of the metric. A projection gives every row its own noise, so single
    distances need a large budget. Averages over many rows (cluster centers) need far less.
    """

    n: int | None
    d: int
    k: int
    radius: float
    noise_std: float
    """Standard deviation of the noise in each projected number (adaptive: for a matrix of typical norm)."""
    adversary: str
    calibration: str
    direct_noise_std: float | None = None
    """The same if the rows themselves were published, matrix=numpy.eye(d), on the same budget."""

    @property
    def largest_squared_distance(self) -> float:
        return 4 * self.radius**2

    def distance_error(self, squared_distance: float) -> float:
        """Standard error of an estimated squared distance whose true value is this [J8]."""
        return math.sqrt(2 / self.k) * (squared_distance + 2 * self.k * self.noise_std**2)

    def direct_error(self, squared_distance: float) -> float:
        """The same standard error if the rows themselves were published; infinite if not known."""
        if self.direct_noise_std is None:
            return math.inf
        variance = self.direct_noise_std**2
        return math.sqrt(8 * variance * (squared_distance + self.d * variance))

    @property
    def warning(self) -> str | None:
        """Why a budget spent on this projection may be wasted."""
        return self.verdict if self.useless else None

    @property
    def useless(self) -> bool:
        """Whether an estimated distance is no better than the bounds alone, wherever the truth lies.

        The bounds alone leave a standard error of the largest squared distance / sqrt(12).
        """
        return self.distance_error(0.0) >= self.largest_squared_distance / math.sqrt(12)

    def rows_to_average(self, accuracy: float = 0.1) -> int:
        """The number of rows whose mean (a cluster's center) has noise of length accuracy * radius."""
        return math.ceil(self.k * (self.noise_std / (positive("accuracy", accuracy) * self.radius)) ** 2)

    @property
    def verdict(self) -> str:
        share = self.distance_error(0.0) / self.largest_squared_distance
        text = "Single distances are useless, no better than the bounds alone: the" if self.useless else "The"
        size = f"{share:.0%} of" if share < 1 else f"{share:.2g} times"
        text += f" error of a squared distance is {size} the largest possible one"
        text += f"; the mean of {self.rows_to_average():,} rows has an error of a tenth of the radius."
        middle = self.largest_squared_distance / 2
        if self.direct_error(middle) < self.distance_error(middle):
            text += " Releasing the rows themselves (matrix=numpy.eye(d)) would have a smaller error."
        return text

    def document(self, most: int | None = None) -> Document:
        rows = "" if self.n is None else f"{many(self.n, 'row')} of "
        near, far = self.distance_error(0.0), self.distance_error(self.largest_squared_distance)
        ends = f"{near:.6g} at squared distance 0, {far:.6g} at the largest, {self.largest_squared_distance:.6g}"
        facts = [
            ("Adversary", self.adversary),
            ("Noise", f"standard deviation {self.noise_std:.6g} in every number (rows within {self.radius:.6g})"),
            ("Distances", f"standard error {ends}"),
            ("Verdict", self.verdict),
        ]
        title = f"Forecast of a private projection of {rows}{many(self.d, 'column')} to {many(self.k, 'number')}"
        return Document(title, [], facts)

    def plot(self, title: str, path: str | Path | None = None) -> Any:
        """Standard errors of squared distances, as shares of the largest possible one."""
        from ..display.plots.drawing import BLACK, check_format, figure, save, stroke, styled, ticks

        if path is not None:
            check_format(path)
        picture, axis = figure(6.5, 4.2)
        largest = self.largest_squared_distance
        shares = np.linspace(0, 1, 21)
        errors = [self.distance_error(share * largest) / largest for share in shares.tolist()]
        with styled():
            axis.plot(shares, errors, **{**stroke(0), "marker": ""}, label="this projection")
            axis.axhline(1 / math.sqrt(12), color=BLACK, linestyle=":", label="the bounds alone")
            top = 1.1 * max(*errors, 0.3)
            axis.set_ylim(0, top)
            axis.set_yticks(*ticks(0.0, top, 3.5))
            axis.set_xticks(*ticks(0.0, 1.0, 4.0))
            axis.set_xlabel("squared distance / the largest possible")
            axis.set_ylabel("standard error / the largest possible")
            axis.set_title(title)
            axis.legend()
        if path is not None:
            save(picture, path)
        return picture


@public
def projection_forecast(
    n: int | None,
    d: int,
    k: int,
    bounds: Rows,
    budget: Budget | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    adversary: str | None = None,
    calibration: str = "exact",
    metric: str = "original",
) -> ProjectionForecast:
    """Forecast the errors of `project` with the same arguments, without data and at no cost.

    Parameters
    ----------
    n : int or None
        The number of rows; needed for Normal rows without `clip_probability`.
    d : int
        The number of columns.
    k : int
        Numbers per row.
    bounds : Ball, Box or Normal
        How far a row can lie from the center. Rows beyond are clipped.
    adversary : {"oblivious", "adaptive"}, optional
        As in `project`.
    calibration : {"exact", "tail", "composition"}, default "exact"
        As in `project`.
    metric : {"original", "scaled"}, default "original"
        As in `project`.

    Returns
    -------
    ProjectionForecast
        With `distance_error()`, `useless`, `rows_to_average()` and `verdict`.

    Examples
    --------
    >>> import ellipsum as es
    >>> es.projection_forecast(3000, 1000, 20, es.Ball(1.0), epsilon=5, delta=1e-6).useless
    True
    """
    d, k = columns_of("d", d), columns_of("k", k)
    count = None if n is None else whole("n", n)
    options = ProjectionOptions(bounds, Budget.of(epsilon, delta, budget), adversary, calibration, metric)
    return options.forecast(options.region(d, count), count, k)


@public
def choose_k(
    n: int | None,
    d: int,
    bounds: Rows,
    budget: Budget | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    distance: float | None = None,
    adversary: str | None = None,
    metric: str = "original",
) -> ProjectionForecast:
    """Forecast the projection whose k, at most d, has the smallest error for rows `distance` apart.

    A small k loses the distance in the randomness of the matrix, a large one in the noise of k numbers. They balance
    near k = distance^2 / (2 noise_std^2).

    Parameters
    ----------
    n : int or None
        The number of rows; needed for Normal rows without `clip_probability`.
    d : int
        The number of columns.
    bounds : Ball, Box or Normal
        How far a row can lie from the center. Rows beyond are clipped.
    distance : float, optional
        The distance of interest. By default sqrt(2) radius: two rows at the edge in unrelated directions.
    adversary : {"oblivious", "adaptive"}, optional
        As in `project`.
    metric : {"original", "scaled"}, default "original"
        As in `project`.

    Returns
    -------
    ProjectionForecast
        Its `k` is the choice.

    Examples
    --------
    >>> import ellipsum as es
    >>> es.choose_k(3000, 1000, es.Ball(1.0), epsilon=200, delta=1e-6).k < 100
    True
    """
    d = columns_of("d", d)
    count = None if n is None else whole("n", n)
    options = ProjectionOptions(bounds, Budget.of(epsilon, delta, budget), adversary, "exact", metric)
    return options.best_forecast(options.region(d, count), count, distance)
