"""Settings of the benchmark of unknown bounds: real tables, whole and in part, and synthetic columns and vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.optimize import brentq
from scipy.special import ndtr

from . import _real

PARTS = ("real", "few", "tenth", "columns", "vectors")
DELTA = 1e-6
Draw = Callable[[np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Setting:
    part: str
    name: str
    n: int
    d: int
    data: Callable[[int], Any]
    """From a run's seed: an Arrow table of named columns, or an array of rows without names."""
    magnitude: Any
    epsilon: float = 1.0

    @property
    def key(self) -> str:
        return f"{self.part}: {self.name}"

    @property
    def signal(self) -> float:
        return self.n * gaussian_mu(self.epsilon, DELTA) / math.sqrt(2 * self.d)


@lru_cache
def gaussian_mu(epsilon: float, delta: float) -> float:
    """mu of Gaussian noise at (epsilon, delta)."""
    excess = lambda mu: ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu) - delta  # noqa: E731
    return float(brentq(excess, 1e-3, 50.0))


def real(names: list[str]) -> Iterator[Setting]:
    for name in names:
        columns = _real.load(name)
        table = pa.table(columns)
        yield Setting(
            "real", name, table.num_rows, len(columns), lambda _, table=table: table, _real.magnitudes(columns)
        )


def few(tables: list[Setting]) -> Iterator[Setting]:
    def sample(table: Any, n: int, seed: int) -> Any:
        return table.take(np.sort(np.random.default_rng(seed).choice(table.num_rows, n, replace=False)))

    for n in (50, 100, 200, 500):
        for setting in tables:
            if setting.d <= _real.NARROW and n < setting.n:
                drawn = lambda seed, whole=setting.data, n=n: sample(whole(seed), n, seed)  # noqa: E731
                yield replace(setting, part=f"few, n = {n}", n=n, data=drawn)


LAWS: dict[str, Callable[[np.random.Generator, tuple[int, int]], np.ndarray]] = {
    "normal": lambda rng, size: rng.normal(5, 1, size),
    "t3": lambda rng, size: 10 + 3 * rng.standard_t(3, size),
    "lognormal": lambda rng, size: rng.lognormal(3, 1, size),
    "exponential": lambda rng, size: rng.exponential(5, size),
    "60% zeros": lambda rng, size: np.where(rng.random(size) < 0.6, 0.0, rng.gamma(2, 3, size)),
    "far": lambda rng, size: rng.normal(1000, 1, size),
    "2% far out": lambda rng, size: np.where(rng.random(size) < 0.02, 500.0, rng.normal(0, 1, size)),
}


def columns() -> Iterator[Setting]:
    for d in (1, 2, 3):
        for n in (1000, 10_000):
            for law, draw in LAWS.items():
                rows = lambda seed, draw=draw, size=(n, d): named(draw(np.random.default_rng(seed), size))  # noqa: E731
                yield Setting(f"columns, d = {d}, n = {n}", law, n, d, rows, {f"x{i}": 1e4 for i in range(d)})


def named(rows: np.ndarray) -> Any:
    return pa.table({f"x{i}": np.clip(column, -1e8, 1e8) for i, column in enumerate(rows.T)})


def vectors() -> Iterator[Setting]:
    def of(
        name: str, n: int, d: int, magnitude: float, draw: Draw, mixed: bool = False, epsilon: float = 1.0
    ) -> Setting:
        clip = lambda seed: np.clip(draw(np.random.default_rng(seed)), -magnitude, magnitude)  # noqa: E731
        if mixed:
            return Setting("vectors", name, n, d, lambda s: named(clip(s)), {f"x{i}": magnitude for i in range(d)})
        return Setting("vectors", name, n, d, clip, magnitude, epsilon)

    scales = 10.0 ** np.linspace(-2, 4, 20)
    axes = np.linalg.qr(np.random.default_rng(3).standard_normal((50, 50)))[0]
    condition = (axes * np.geomspace(1e-2, 1.0, 50)) @ axes.T  # square root of a covariance of condition number 10^4
    loads = np.random.default_rng(4).standard_normal((5, 100))
    ones = 1 / np.arange(1, 1001)
    yield of("identity, d = 20", 5000, 20, 1e3, lambda g: 10 + g.standard_normal((5000, 20)))
    yield of("t3, d = 20", 5000, 20, 1e4, lambda g: 10 + g.standard_t(3, (5000, 20)))
    yield of("identity, d = 100", 10_000, 100, 1e3, lambda g: 10 + g.standard_normal((10_000, 100)))
    yield of(
        "rank 5 plus noise, d = 100",
        10_000,
        100,
        1e4,
        lambda g: g.standard_normal((10_000, 5)) @ loads + 0.1 * g.standard_normal((10_000, 100)),
    )
    yield of("std 100/j, d = 100", 10_000, 100, 1e4, lambda g: 10 + 100 * ones[:100] * g.standard_normal((10_000, 100)))
    yield of(
        "mixed units, d = 20", 10_000, 20, 1e6, lambda g: scales * (3 + g.standard_normal((10_000, 20))), mixed=True
    )
    yield of("lognormal units, d = 20", 10_000, 20, 1e7, lambda g: scales * g.lognormal(size=(10_000, 20)), mixed=True)
    yield of("far and concentrated, d = 50", 1000, 50, 1e4, lambda g: 3000 + g.standard_normal((1000, 50)))
    yield of("condition number 10^4, d = 50", 5000, 50, 100.0, lambda g: 10 + g.standard_normal((5000, 50)) @ condition)
    yield of(
        "std 1/j, d = 1000", 4000, 1000, 100.0, lambda g: 1 + ones * g.standard_normal((4000, 1000)), epsilon=4.8866
    )


@lru_cache(maxsize=1)
def settings(tables: str) -> dict[str, Setting]:
    names = {"chosen": _real.CHOSEN, "spent": _real.SPENT, "once": _real.ONCE, "all": _real.CHOSEN + _real.ONCE}[tables]
    whole = list(real(names))
    tenth = [replace(setting, part="tenth", epsilon=0.1) for setting in whole]
    return {one.key: one for one in [*whole, *few(whole), *tenth, *columns(), *vectors()]}
