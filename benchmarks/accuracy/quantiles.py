"""Quantiles and histograms side by side with other mechanisms at the same guarantee, and coverage of intervals.

    python -m benchmarks.accuracy.quantiles [errors] [coverage] [histograms] [speed] [--runs 20]

epsilon = 1 and delta = 1e-6 for all columns and quantiles together, one row replaced. Quartiles of made-up columns
(with which the number of bins was chosen) and of real columns (`_real.py`, none of which was used to choose anything),
n = 500 to 100,000 rows drawn with replacement, 1 or 10 columns. Bounds are [0, 10^k] or [-10^k, 10^k].

errors: the root mean square distance of q n from the ranks of the released value (0 where it lies on a tie), in rows,
and the median error of the value in interquartile ranges. "cdf" has intervals and all other quantiles; the others are
points: ellipsum's exponential mechanism, OpenDP's private quantile on 1,024 equal bins, and the exponential mechanism
on the line, which diffprivlib's quantile is too (it fails on some tables with ties). "learned bounds" spends a quarter
of mu^2 on `es.learn` and the rest on "cdf".
coverage: of 95% intervals, for the data and for the population, in every setting; fails below 0.93.
histograms: root mean square error of a count, beside OpenDP's Laplace counts and diffprivlib's with epsilon divided
between columns.
speed: processor time for 10^7 rows of 10 columns, as a ratio to numpy.histogram on the same data in the same run.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import product

import numpy as np

import ellipsum as es

from . import _real

Q = (0.25, 0.5, 0.75)
EPSILON, DELTA = 1.0, 1e-6
SIZES = (500, 2_000, 10_000, 100_000)
LEAST = 0.93
REAL = [
    "Ecdat/StrikeDur",
    "texmex/rain",
    "survival/nwtco",
    "Ecdat/DoctorAUS",
    "quantreg/gasprice",
    "modeldata/solubility_test",
]
Method = Callable[[np.ndarray, tuple[float, float], np.random.Generator], np.ndarray]
"""(columns, quantiles) of rows within bounds of every column."""


# Columns ------------------------------------------------------------------------------------------------


def made_up(name: str, n: int, rng: np.random.Generator) -> np.ndarray:
    if name == "normal":
        return rng.normal(50, 15, n)
    if name == "lognormal":
        return rng.lognormal(3, 1, n)
    if name == "half ties":
        return np.where(rng.random(n) < 0.5, 40.0, rng.uniform(0, 100, n))
    return rng.poisson(4.0, n).astype(float)


MADE_UP = ("normal", "lognormal", "half ties", "integers")


def real_columns() -> dict[str, np.ndarray]:
    """Columns of numbers with an interquartile range, by table and name."""
    columns = {}
    for table in REAL:
        for name, values in _real.load(table).items():
            there = values[np.isfinite(values)]
            if there.size >= 200 and np.ptp(np.quantile(there, (0.25, 0.75))) > 0:
                columns[f"{table} {name}"] = there
    return columns


def bounds_of(values: np.ndarray) -> tuple[float, float]:
    """Powers of ten, as if stated without a look at the column."""
    high = 10.0 ** math.ceil(math.log10(max(np.abs(values).max(), 1e-9)))
    return (0.0 if values.min() >= 0 else -high), high


def rank_errors(rows: np.ndarray, found: np.ndarray) -> np.ndarray:
    """How far q n is from the ranks of each value, in rows."""
    errors = np.empty(found.shape)
    for j, values in enumerate(found):
        ordered = np.sort(rows[:, j])
        below, upto = np.searchsorted(ordered, values, "left"), np.searchsorted(ordered, values, "right")
        wanted = np.array(Q) * len(rows)
        errors[j] = np.maximum(np.maximum(below - wanted, wanted - upto), 0)
    return errors


def value_errors(rows: np.ndarray, found: np.ndarray) -> np.ndarray:
    """How far each value is from the quantile, in interquartile ranges."""
    true = np.quantile(rows, Q, axis=0, method="inverted_cdf").T
    return np.abs(found - true) / np.maximum(true[:, -1:] - true[:, :1], 1e-300)


# Methods ------------------------------------------------------------------------------------------------


def _ellipsum(method: str, bins: str | None = None) -> Method:
    def quantiles(rows: np.ndarray, bounds: tuple[float, float], rng: np.random.Generator) -> np.ndarray:
        box = es.Box(*bounds)
        return es.quantiles(rows, box, Q, method=method, bins=bins, epsilon=EPSILON, delta=DELTA, rng=rng).value

    return quantiles


def _unknown(rows: np.ndarray, bounds: tuple[float, float], rng: np.random.Generator) -> np.ndarray:
    return es.quantiles(rows, es.Unknown(1e6 * bounds[1]), Q, epsilon=EPSILON, delta=DELTA, rng=rng).value


def _learned(rows: np.ndarray, bounds: tuple[float, float], rng: np.random.Generator) -> np.ndarray:
    mu = es.Budget(epsilon=EPSILON, delta=DELTA).mu
    learned = es.learn(rows, es.Unknown(1e6 * bounds[1]), budget=es.Budget(mu=0.5 * mu), rng=rng)
    return es.quantiles(rows, learned.bounds, Q, budget=es.Budget(mu=math.sqrt(0.75) * mu), rng=rng).value


def _continuous(rows: np.ndarray, bounds: tuple[float, float], rng: np.random.Generator) -> np.ndarray:
    """The exponential mechanism on the line: an interval between neighboring values, then a uniform point of it."""
    rate = EPSILON / rows.shape[1] / len(Q) / 2  # a replaced row moves a rank by 1
    found = np.empty((rows.shape[1], len(Q)))
    for j in range(rows.shape[1]):
        ends = np.concatenate([[bounds[0]], np.sort(np.clip(rows[:, j], *bounds)), [bounds[1]]])
        ranks = np.arange(ends.size - 1)
        with np.errstate(divide="ignore"):
            widths = np.log(np.diff(ends))
        for i, q in enumerate(Q):
            weights = widths - rate * np.abs(ranks - q * len(rows))
            chosen = int(np.argmax(weights + rng.gumbel(size=weights.size)))
            found[j, i] = rng.uniform(ends[chosen], ends[chosen + 1])
    return found


def _opendp(rows: np.ndarray, bounds: tuple[float, float], rng: np.random.Generator) -> np.ndarray:
    """Private quantiles on 1024 equal bins; epsilon is divided between columns and quantiles."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(rows))
    candidates = np.linspace(*bounds, 1025).tolist()
    each = EPSILON / rows.shape[1] / len(Q)

    def measure(scale: float, q: float) -> dp.Measurement:
        space = domain, dp.symmetric_distance()
        return dp.m.make_private_quantile(*space, dp.max_divergence(), candidates, alpha=q, scale=scale)

    scale = dp.binary_search_param(lambda scale: measure(scale, 0.5), d_in=2, d_out=each)
    return np.array([[measure(scale, q)(column.tolist()) for q in Q] for column in rows.T])


METHODS: dict[str, Method] = {
    "cdf": _ellipsum("cdf"),
    "cdf, unknown bounds": _unknown,
    "cdf, learned bounds": _learned,
    "exponential": _ellipsum("exponential"),
    "exponential, continuous": _continuous,
    **({"OpenDP": _opendp} if find_spec("opendp") else {}),
}


# Tables -------------------------------------------------------------------------------------------------


def samples(n: int, width: int, rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, tuple[float, float]]]:
    """Made-up and real columns: one by one, or ten of a kind side by side."""
    for name in MADE_UP:
        rows = np.stack([made_up(name, n, rng) for _ in range(width)], axis=1)
        yield (
            "made up, ties" if name in ("half ties", "integers") else "made up",
            rows,
            (0.0, 1000.0) if name == "lognormal" else (0.0, 100.0),
        )
    columns = real_columns()
    for name in columns if width == 1 else list(columns)[:: max(1, len(columns) // 4)]:
        values = columns[name]
        rows = rng.choice(values, (n, width))
        tied = np.unique(values).size < 0.5 * values.size
        yield "real, ties" if tied else "real", rows, bounds_of(values)


def print_errors(runs: int) -> None:
    print("| columns | n | data | method | rank error (rows) | value error (IQR) |")
    print("| ---: | ---: | --- | --- | ---: | ---: |")
    rng = np.random.default_rng(11)
    for width in (1, 10):
        for n in SIZES:
            ranks: dict[tuple[str, str], list[np.ndarray]] = {}
            values: dict[tuple[str, str], list[np.ndarray]] = {}
            for _ in range(runs if width == 1 else max(1, runs // 4)):
                for kind, rows, bounds in samples(n, width, rng):
                    for name, method in METHODS.items():
                        found = method(rows, bounds, rng)
                        ranks.setdefault((kind, name), []).append(rank_errors(rows, found))
                        values.setdefault((kind, name), []).append(value_errors(rows, found))
            for (kind, name), parts in ranks.items():
                rank = math.sqrt(np.mean(np.concatenate(parts) ** 2))
                value = float(np.median(np.concatenate(values[kind, name])))
                print(f"| {width} | {n:,} | {kind} | {name} | {rank:.3g} | {value:.2g} |", flush=True)


# Coverage -----------------------------------------------------------------------------------------------


def print_coverage(runs: int) -> bool:
    """Every setting, and whether all cover at least LEAST."""
    print("| n | neighbors | delta | groups | data | coverage, least group and quantile | population |")
    print("| ---: | --- | ---: | ---: | --- | ---: | ---: |")
    least = 1.0
    for n, neighbors, delta, groups, name in product(
        (20, 500, 5_000), ("replace", "add_remove"), (DELTA, 0.0), (1, 2), MADE_UP
    ):
        data, population = coverage(name, n, neighbors, delta, groups, runs)
        least = min(least, data, population)
        print(f"| {n:,} | {neighbors} | {delta:g} | {groups} | {name} | {data:.3f} | {population:.3f} |", flush=True)
    print(f"\nleast coverage {least:.3f}")
    return least >= LEAST


def coverage(name: str, n: int, neighbors: str, delta: float, groups: int, runs: int) -> tuple[float, float]:
    """How often 95% intervals hold the quantile of the data, and of the population."""
    rng, keys = np.random.default_rng(3), list(range(groups))
    true = np.quantile(made_up(name, 400_000, rng).clip(0, 1000), Q, method="inverted_cdf")
    labels = np.arange(n) % groups
    by = None if groups == 1 else es.Groups("group", keys=keys)
    terms = {"neighbors": neighbors, "epsilon": EPSILON, "delta": delta}
    plan = es.plan("quantiles", es.Box(0, 1000), q=Q, n=n, d=1, by=by, **terms)
    hits = np.zeros((2, groups, len(Q)))
    for _ in range(runs):
        values = made_up(name, n, rng).clip(0, 1000)
        data = values[:, None] if by is None else {"group": labels, "x": values}
        release = plan.release(data, rng=rng, columns=None if by is None else ["x"])
        wanted = np.array([np.quantile(values[labels == key], Q, method="inverted_cdf") for key in keys])
        for place, (target, goal) in enumerate((("data", wanted), ("population", true))):
            low, high = np.moveaxis(release.confidence_interval(0.95, target=target).reshape(groups, len(Q), 2), -1, 0)
            hits[place] += (low <= goal + 1e-9) & (goal - 1e-9 <= high)
    return float(hits[0].min() / runs), float(hits[1].min() / runs)


# Histograms ---------------------------------------------------------------------------------------------


def print_histograms(runs: int) -> None:
    """Counts of 20 bins a column, one row replaced."""
    print("| columns | ellipsum | mechanism | " + " | ".join(COUNTS) + " |")
    print("| ---: | ---: | --- |" + " ---: |" * len(COUNTS))
    rng, edges = np.random.default_rng(5), np.arange(21.0)
    for width in (1, 4, 10, 30):
        rows = rng.uniform(0, 20, (5_000, width))
        exact = np.stack([np.histogram(column, edges)[0] for column in rows.T])
        bins = {j: edges.tolist() for j in range(width)}
        errors, mechanism = [], ""
        others: dict[str, list[np.ndarray]] = {name: [] for name in COUNTS}
        for _ in range(runs):
            release = es.histogram(rows, bins=bins, epsilon=EPSILON, delta=DELTA, rng=rng)
            counts = release.value if width == 1 else np.stack(list(release.value.values()))
            errors.append(counts - exact)
            mechanism = release.plan.mechanism
            for name, counts_of in COUNTS.items():
                others[name].append(counts_of(rows) - exact)
        found = [f"{np.sqrt(np.mean(np.square(parts))):.3g}" for parts in (errors, *others.values())]
        print(f"| {width} | {found[0]} | {mechanism} | {' | '.join(found[1:])} |", flush=True)


def _opendp_counts(rows: np.ndarray) -> np.ndarray:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i32")), dp.symmetric_distance()
    count = dp.t.make_count_by_categories(*space, categories=list(range(20)), null_category=False)
    each = EPSILON / rows.shape[1]
    scale = dp.binary_search_param(lambda scale: count >> dp.m.then_laplace(scale), d_in=2, d_out=each)
    measure = count >> dp.m.then_laplace(scale)
    return np.array([measure(column.astype(np.int32).tolist()) for column in rows.T])


def _diffprivlib_counts(rows: np.ndarray) -> np.ndarray:
    from diffprivlib.tools import histogram

    each = EPSILON / rows.shape[1] / 2  # epsilon is for one row more or less
    return np.array([histogram(column, epsilon=each, bins=20, range=(0, 20))[0] for column in rows.T])


COUNTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    **({"OpenDP": _opendp_counts} if find_spec("opendp") else {}),
    **({"diffprivlib": _diffprivlib_counts} if find_spec("diffprivlib") else {}),
}


# Speed --------------------------------------------------------------------------------------------------


def print_speed() -> None:
    rows = np.random.default_rng(0).random((10_000_000, 10))
    edges = np.linspace(0, 1, 1025)

    def seconds(run: Callable[[], object]) -> float:
        start = time.process_time()
        run()
        return time.process_time() - start

    terms = {"epsilon": EPSILON, "delta": DELTA}
    es.quantiles(rows[:1000], es.Box(0, 1), **terms)  # compiles
    plain = seconds(lambda: [np.histogram(column, 1024, (0, 1)) for column in rows.T])
    calls = {
        "es.quantiles, 1,024 bins": lambda: es.quantiles(rows, es.Box(0, 1), **terms),
        "es.histogram, 1,024 bins": lambda: es.histogram(rows, bins={j: edges.tolist() for j in range(10)}, **terms),
        "es.histogram, 5 uneven bins": lambda: es.histogram(
            rows, bins={j: [0, 0.1, 0.25, 0.5, 0.9, 1] for j in range(10)}, **terms
        ),
    }
    print(f"numpy.histogram of ten columns, 1,024 equal bins: {plain:.2f} s")
    for name, call in calls.items():
        print(f"{name}: {seconds(call) / plain:.2f} times numpy.histogram", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["errors", "coverage", "histograms", "speed"])
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    warnings.simplefilter("ignore", es.AccuracyWarning)
    if "errors" in options.parts:
        print_errors(options.runs)
    if "histograms" in options.parts:
        print_histograms(options.runs)
    if "speed" in options.parts:
        print_speed()
    if "coverage" in options.parts and not print_coverage(10 * options.runs):
        sys.exit(1)


if __name__ == "__main__":
    main()
