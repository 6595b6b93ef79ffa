"""What a projection would be good for, before anything is spent: forecast, choice of k, plain verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ..display.document import Document
from ..display.result import Printed
from ..display.wording import many
from ..errors import UsageError, choice, columns_of, positive, whole
from ..numerics.rounding import round_up, sqrt_up
from ..privacy.budget import Budget
from ..privacy.guarantee import Privacy
from ..rows import Rows
from .curve import CALIBRATIONS, ProjectionPrivacy, certified_scale
from .matrix import MATRIX_STD, matrix_excess, unit
from .region import ProjectionRegion, region_of

ADVERSARIES = ("oblivious", "adaptive")


class ProjectionWarning(UserWarning):
    """A projection that a reader of the forecast would not make: more columns than before, or useless distances."""


@dataclass(frozen=True, repr=False)
class ProjectionForecast(Printed):
    """The public numbers of a projection and the errors that follow from them.

    Distances are squared and in the units of the metric. A projection gives every row its own noise, so single
    distances need a large budget; averages over many rows (cluster centers) need far less.
    """

    n: int | None
    d: int
    k: int
    radius: float
    noise_std: float
    """Std of the noise in each projected coordinate (adaptive: for a matrix of typical norm)."""
    adversary: str
    calibration: str
    direct_noise_std: float | None = None
    """Std of the noise if the rows themselves were published, matrix=numpy.eye(d), on the same budget."""

    @property
    def largest_squared_distance(self) -> float:
        return 4 * self.radius**2

    def distance_error(self, squared_distance: float) -> float:
        """Standard error of an estimated squared distance whose true value is this [J8]."""
        return math.sqrt(2 / self.k) * (squared_distance + 2 * self.k * self.noise_std**2)

    def direct_error(self, squared_distance: float) -> float:
        """The same standard error if the rows themselves were published on the same budget; infinite if not known."""
        if self.direct_noise_std is None:
            return math.inf
        variance = self.direct_noise_std**2
        return math.sqrt(8 * variance * (squared_distance + self.d * variance))

    @property
    def doubt(self) -> str | None:
        """Why a budget spent on this projection may be wasted."""
        return self.verdict if self.useless else None

    @property
    def useless(self) -> bool:
        """Whether a distance says no more than the bounds do.

        Knowing only that a squared distance lies between 0 and its largest possible value leaves a standard
        error of that value / sqrt(12); useless means that the estimate is no better, wherever the truth lies.
        """
        return self.distance_error(0.0) >= self.largest_squared_distance / math.sqrt(12)

    def rows_to_average(self, accuracy: float = 0.1) -> int:
        """Rows whose mean (a cluster's center) has noise of length accuracy * radius, root mean square."""
        return math.ceil(self.k * (self.noise_std / (positive("accuracy", accuracy) * self.radius)) ** 2)

    @property
    def verdict(self) -> str:
        share = self.distance_error(0.0) / self.largest_squared_distance
        text = f"noise adds {share:.2g} of the largest possible squared distance to a single distance"
        if self.useless:
            text = f"single distances are useless: {text}"
        text += f"; the mean of {self.rows_to_average()} rows has noise of a tenth of the radius."
        middle = self.largest_squared_distance / 2
        if self.direct_error(middle) < self.distance_error(middle):
            text += " Publishing the rows themselves (matrix=numpy.eye(d)) would err less."
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


def projection_forecast(
    n: int | None,
    d: int,
    k: int,
    rows: Rows,
    budget: Budget | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    adversary: str | None = None,
    calibration: str = "exact",
    metric: str = "original",
    clip_probability: float | None = None,
) -> ProjectionForecast:
    """The forecast of `project` with the same arguments, made without data and at no cost."""
    d, k = columns_of("d", d), columns_of("k", k)
    count = None if n is None else whole("n", n)
    spend = Budget.of(epsilon=epsilon, delta=delta, budget=budget)
    region = region_of(rows, d, metric, count, clip_probability)
    return forecast_in(region, count, k, spend, adversary, calibration)


def forecast_in(
    region: ProjectionRegion, n: int | None, k: int, budget: Budget, adversary: str | None, calibration: str
) -> ProjectionForecast:
    """The forecast for a region that is already laid."""
    choice("calibration", calibration, CALIBRATIONS)
    against = adversary_for(region, k, budget, adversary, calibration)
    guarantee = guarantee_of(budget, region.width, k, against, calibration)
    if isinstance(guarantee, ProjectionPrivacy):
        units = oblivious_noise(region, guarantee)
    else:
        units = adaptive_noise(region, guarantee, _typical_norm(region.width, k))
    std = noise_std_of(region, k, units)
    direct = 2 * region.radius / budget.mu
    return ProjectionForecast(n, region.center.size, k, region.radius, std, against, calibration, direct)


def adversary_for(region: ProjectionRegion, k: int, budget: Budget, adversary: str | None, calibration: str) -> str:
    """The stated adversary, or for a fresh matrix the one that is expected to need less noise.

    Decided by sizes and budget alone: a choice that looked at the drawn matrix would void the average over it.
    """
    if adversary is not None:
        return choice("adversary", adversary, ADVERSARIES)
    if calibration != "exact":
        return "oblivious"
    if "delta" not in dict(budget.stated):
        return "adaptive"
    average = guarantee_of(budget, region.width, k, "oblivious", "exact")
    strict = guarantee_of(budget, region.width, k, "adaptive", "exact")
    assert isinstance(average, ProjectionPrivacy)
    assert isinstance(strict, Privacy)
    typical = adaptive_noise(region, strict, _typical_norm(region.width, k))
    return "adaptive" if typical <= oblivious_noise(region, average) else "oblivious"


def _typical_norm(width: int, k: int) -> Fraction:
    """About the largest singular value of a drawn matrix (its mean is below this)."""
    return Fraction(MATRIX_STD * (math.sqrt(width) + math.sqrt(k)))


def choose_k(
    n: int | None,
    d: int,
    rows: Rows,
    budget: Budget | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    distance: float | None = None,
    adversary: str | None = None,
    metric: str = "original",
    clip_probability: float | None = None,
) -> ProjectionForecast:
    """The forecast whose k, at most d, has the least error for rows `distance` apart.

    A small k loses the distance in the randomness of the matrix, a large one in the noise of k coordinates; they
    balance near k = distance^2 / (2 noise_std^2). distance defaults to sqrt(2) radius: two rows at the edge in
    unrelated directions.
    """
    d = columns_of("d", d)
    count = None if n is None else whole("n", n)
    spend = Budget.of(epsilon=epsilon, delta=delta, budget=budget)
    region = region_of(rows, d, metric, count, clip_probability)
    apart = math.sqrt(2) * region.radius if distance is None else positive("distance", distance)
    if not math.isfinite(apart * apart):
        raise UsageError("distance must have a square within the range of doubles. Rescale the columns.")
    squared = apart * apart
    forecasts: dict[int, ProjectionForecast] = {}

    def error(k: int) -> float:
        if k not in forecasts:
            forecasts[k] = forecast_in(region, count, k, spend, adversary, "exact")
        return forecasts[k].distance_error(squared)

    low, high = 1, region.width
    while high - low > 2:  # the error falls, then rises
        left, right = low + (high - low) // 3, high - (high - low) // 3
        if error(left) <= error(right):
            high = right
        else:
            low = left
    return forecasts[min(range(low, high + 1), key=error)]


# What the noise must be --------------------------------------------------------------------------------


def guarantee_of(
    budget: Budget, width: int, k: int, adversary: str, calibration: str, hidden: str = "row"
) -> ProjectionPrivacy | Privacy:
    """The guarantee that a projection of this size gets for its budget."""
    if adversary == "adaptive":
        if calibration != "exact":
            raise UsageError(
                f"calibration={calibration!r} rests on a fresh matrix. "
                "Use calibration='exact' with adversary='adaptive'."
            )
        return Privacy(budget.mu, 0.0, "replace", hidden)
    said = dict(budget.stated)
    if "delta" not in said:
        raise UsageError(
            "An oblivious projection spends a curve of its own, which no mu or rho covers. "
            "State epsilon= and delta=, or use adversary='adaptive'."
        )
    excess = matrix_excess(width)
    scale = certified_scale(said["epsilon"], said["delta"], k, excess, calibration)
    return ProjectionPrivacy(k, scale, excess, said["delta"], hidden)


def oblivious_noise(region: ProjectionRegion, privacy: ProjectionPrivacy) -> float:
    """The least double s with s * scale >= diameter * MATRIX_STD * sqrt(k), in grid units [J1][J2]."""
    needed = region.row_map.body.diameter * Fraction(MATRIX_STD) * Fraction(sqrt_up(Fraction(privacy.k)))
    return round_up(needed / Fraction(privacy.scale))


def adaptive_noise(region: ProjectionRegion, privacy: Privacy, norm: Fraction) -> float:
    """The least double s with s * mu >= diameter * ‖matrix‖_2, in grid units [J6]."""
    return round_up(region.row_map.body.diameter * norm / Fraction(privacy.mu))


def noise_std_of(region: ProjectionRegion, k: int, noise_units: float) -> float:
    """Noise std in the units of the metric."""
    std = math.ldexp(noise_units, -region.row_map.grid_bits) * region.radius * unit(k)
    if not math.isfinite(4 * k * std * std):
        raise UsageError("the noise of this projection leaves the range of doubles. Rescale the columns.")
    return std
