"""Data for the comparison of private means: synthetic laws and the tables that come with scikit-learn.

A setting says what is public (n, d, magnitude), draws rows from a generator, and carries what only an oracle or a
favored method would know: the true center and the standard deviations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

import ellipsum as es

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
    cov: np.ndarray | None = None
    """The true covariance, where the rows are normal and their columns correlated."""
    budget: es.Budget = es.Budget(mu=1.0)  # noqa: RUF009
    unit: np.ndarray | None = None
    """What the error of each column is measured in; such columns have names, and their errors count relatively."""
    favor: bool = False
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
        favor=told is None,
    )


def identity(d: int, n: int, mean: float = 10.0, magnitude: float = 50.0) -> Setting:
    return normal(f"identity, d = {d}, n = {n}", n, np.ones(d), mean, magnitude, 1.0)


def uneven(d: int, n: int) -> Setting:
    return normal(f"std d/i, d = {d}, n = {n}", n, zipf(d), 10.0, 50.0 * d, None)


def law(name: str, n: int, d: int, magnitude: float, draw: Draw) -> Setting:
    def held(g: np.random.Generator) -> np.ndarray:
        return np.clip(draw(g), -magnitude, magnitude)

    return Setting(f"{name}, d = {d}, n = {n}", n, d, magnitude, held, favor=True)


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
    return Setting(f"{name}, d = {d}, n = {n}", n, d, magnitude, lambda g: rows, favor=True)


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


SMALL = es.Budget(epsilon=1.0, delta=1e-6)


def small(setting: Setting) -> Setting:
    """The same rows at (1, 1e-6), which is mu = 0.24 or so."""
    return replace(setting, name=f"{setting.name}, (1, 1e-6)", budget=SMALL)


def _at_the_magnitude(n: int, d: int, magnitude: float) -> Draw:
    return lambda g: np.where(g.random((n, 1)) < 0.02, magnitude, 10 + g.standard_normal((n, d)))


def far(d: int, n: int) -> Setting:
    return small(normal(f"far from the origin, d = {d}, n = {n}", n, np.ones(d), 3000.0, 10_000.0, 1.0))


def covariant(name: str, n: int, cov: np.ndarray, magnitude: float) -> Setting:
    """Normal rows of a covariance, about 10."""
    d = len(cov)
    values, vectors = np.linalg.eigh(cov)
    root = vectors * np.sqrt(values)
    center = np.full(d, 10.0)
    return Setting(
        f"{name}, d = {d}, n = {n}",
        n,
        d,
        magnitude,
        lambda g: center + g.standard_normal((n, d)) @ root.T,
        center,
        cov=cov,
    )


def conditioned(d: int, n: int, number: float) -> Setting:
    """Axes in no column's direction, variances from 1 down to 1 / number."""
    axes = np.linalg.qr(np.random.default_rng(3).standard_normal((d, d)))[0]
    cov = (axes * np.geomspace(1 / number, 1.0, d)) @ axes.T
    return covariant(f"condition number {number:g}", n, cov, 100.0)


def low_rank(d: int, n: int, rank: int = 5) -> Setting:
    """A few strong directions, and noise of a tenth."""
    loads = np.random.default_rng(4).standard_normal((d, rank))
    return covariant(f"rank {rank} plus noise", n, loads @ loads.T + 0.01 * np.eye(d), 1000.0)


def units(name: str, n: int, scales: np.ndarray, draw: Draw, magnitude: float) -> Setting:
    """Columns in units of their own: errors count in each column's spread."""
    rows = draw(np.random.default_rng(5))
    return replace(law(name, n, len(scales), magnitude, lambda g: draw(g) * scales), unit=rows.std(axis=0) * scales)


def _people(n: int) -> Draw:
    def draw(g: np.random.Generator) -> np.ndarray:
        return np.stack(
            [
                np.clip(g.normal(45, 18, n), 18, 100),
                g.lognormal(10.4, 0.7, n),
                g.beta(2, 5, n),
                g.negative_binomial(1, 0.3, n).astype(float),
            ],
            axis=1,
        )

    return draw


def hard() -> list[Setting]:
    """Outliers, skew, mixed units, correlation, small budgets, few columns."""
    wide = np.array([1.0, 1000.0, 0.01, 1e6, 50.0])
    twelve = 10.0 ** np.arange(-6.0, 7.0, 3.0)
    skewed = lambda n, d: lambda g: g.lognormal(size=(n, d))  # noqa: E731
    shifted = lambda n, d: lambda g: 3 + g.standard_normal((n, d))  # noqa: E731
    return [
        law("2% at the magnitude", 5000, 20, 1000.0, _at_the_magnitude(5000, 20, 1000.0)),
        law("2% at the magnitude", 1000, 10, 1e4, _at_the_magnitude(1000, 10, 1e4)),
        far(10, 1000),
        far(2, 1000),
        identity(10, 10_000),
        identity(100, 10_000),
        uneven(10, 10_000),
        uneven(100, 10_000),
        small(identity(10, 1000)),
        small(uneven(100, 10_000)),
        units("lognormal units", 20_000, wide, skewed(20_000, 5), 1e8),
        small(units("lognormal units", 20_000, wide, skewed(20_000, 5), 1e8)),
        units("age and income", 10_000, np.ones(4), _people(10_000), 1e6),
        small(units("age and income", 10_000, np.ones(4), _people(10_000), 1e6)),
        units("twelve orders", 10_000, twelve, shifted(10_000, 5), 1e8),
        law("lognormal", 10_000, 3, 1000.0, skewed(10_000, 3)),
        law("zero-inflated", 10_000, 4, 1000.0, lambda g: skewed(10_000, 4)(g) * (g.random((10_000, 4)) < 0.2)),
        law("t with 3 degrees", 20_000, 4, 1000.0, lambda g: 10 + g.standard_t(3, (20_000, 4))),
        conditioned(50, 5000, 1e4),
        small(conditioned(50, 5000, 1e4)),
        low_rank(100, 5000),
        small(low_rank(100, 5000)),
        low_rank(384, 5000),
        *(identity(d, 1000) for d in (1, 2, 3, 4)),
        *(small(identity(d, 1000)) for d in (1, 2, 3, 4)),
        identity(10, 100),
    ]
