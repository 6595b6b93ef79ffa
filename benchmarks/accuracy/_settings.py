"""Data for the comparison of private means: synthetic laws and the tables that come with scikit-learn.

A setting says what is public (n, d, magnitude), draws rows from a generator, and carries what only an oracle or a
favoured method would know: the true centre and the standard deviations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Draw = Callable[[np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Setting:
    name: str
    n: int
    d: int
    magnitude: float
    draw: Draw
    center: np.ndarray | None = None
    """The true mean, where the law is known."""
    std: np.ndarray | None = None
    """The true standard deviations, where the rows are normal."""
    known_std: float | None = None
    """Told to every method that needs a bound on the covariance (CoinPress assumes one); None: nothing is told."""
    favour: bool = False
    """Also run CoinPress with the largest standard deviation known: reported apart, not a fair competitor."""


def zipf(d: int) -> np.ndarray:
    """Standard deviations d / i."""
    return d / np.arange(1, d + 1)


def normal(name: str, n: int, std: np.ndarray, mean: float, magnitude: float, told: float | None) -> Setting:
    center = np.full(std.size, float(mean))
    return Setting(
        name,
        n,
        std.size,
        magnitude,
        lambda g: center + std * g.standard_normal((n, std.size)),
        center,
        std,
        told,
        told is None,
    )


def identity(d: int, n: int, mean: float = 10.0, magnitude: float = 50.0) -> Setting:
    return normal(f"identity, d = {d}, n = {n}", n, np.ones(d), mean, magnitude, 1.0)


def uneven(d: int, n: int) -> Setting:
    return normal(f"std d/i, d = {d}, n = {n}", n, zipf(d), 10.0, 50.0 * d, None)


def law(name: str, n: int, d: int, magnitude: float, draw: Draw) -> Setting:
    def held(g: np.random.Generator) -> np.ndarray:
        return np.clip(draw(g), -magnitude, magnitude)

    return Setting(f"{name}, d = {d}, n = {n}", n, d, magnitude, held, favour=True)


MAIN = [identity(10, 1000), identity(100, 1000), identity(1000, 4000), uneven(10, 1000), uneven(100, 1000)]


def _correlated(n: int, d: int, share: float) -> Draw:
    return lambda g: 10 + np.sqrt(share) * g.standard_normal((n, 1)) + np.sqrt(1 - share) * g.standard_normal((n, d))


def _mixture(n: int, d: int, share: float) -> Draw:
    return lambda g: np.where(g.random((n, 1)) < share, 10.0, -10.0) + g.standard_normal((n, d))


def _outliers(n: int, d: int) -> Draw:
    return lambda g: 10 + np.where(g.random((n, 1)) < 0.02, 20.0, 1.0) * g.standard_normal((n, d))


def _table(name: str) -> np.ndarray:
    import sklearn.datasets as source

    loaders = {
        "breast cancer": source.load_breast_cancer,
        "wine": source.load_wine,
        "diabetes": lambda: source.load_diabetes(scaled=False),
        "digits": source.load_digits,
    }
    return np.asarray(loaders[name]().data, float)


def _real(name: str, magnitude: float) -> Setting:
    rows = _table(name)
    n, d = rows.shape
    return Setting(f"{name}, d = {d}, n = {n}", n, d, magnitude, lambda g: rows, favour=True)


def more() -> list[Setting]:
    """Harder laws, and real tables with bounds that their keepers could state without looking."""
    orders = 10.0 ** -np.arange(13)
    rates = np.linspace(0.02, 0.98, 20)
    return [
        identity(1000, 1000),
        normal("std 1 to 1e-12, d = 13, n = 2000", 2000, orders, 3.0, 10.0, None),
        law("t with 3 degrees", 1000, 10, 1000.0, lambda g: 10 + g.standard_t(3, (1000, 10))),
        law("t with 3 degrees", 1000, 100, 1000.0, lambda g: 10 + g.standard_t(3, (1000, 100))),
        law("2% outliers", 1000, 10, 1000.0, _outliers(1000, 10)),
        law("exponential", 1000, 10, 100.0, lambda g: g.exponential(size=(1000, 10))),
        law("lognormal", 1000, 10, 1000.0, lambda g: np.exp(g.standard_normal((1000, 10)))),
        law("0/1 columns", 1000, 20, 1.0, lambda g: (g.random((1000, 20)) < rates).astype(float)),
        law("correlated 0.9", 1000, 10, 50.0, _correlated(1000, 10, 0.9)),
        law("correlated 0.9", 1000, 100, 50.0, _correlated(1000, 100, 0.9)),
        law("mixture 50/50", 1000, 10, 50.0, _mixture(1000, 10, 0.5)),
        law("mixture 30/70", 1000, 100, 50.0, _mixture(1000, 100, 0.3)),
        _real("breast cancer", 10_000.0),
        _real("wine", 5000.0),
        _real("diabetes", 1000.0),
        _real("digits", 16.0),
    ]
