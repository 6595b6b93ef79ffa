"""Group means side by side with OpenDP's and PipelineDP's at the same guarantee.

    python -m benchmarks.accuracy.groups [--groups 200] [--size 200] [--runs 5]

Eight complete columns within public bounds, epsilon = 1 and delta = 1e-6 for all of them together, one row added or
removed. Prints the root mean square error of a group's mean in units of a column's width over the group's size, for
public groups; and for groups that are not listed the share of groups of several sizes that is published. What is not
installed is left out: pip install "opendp[polars]" pipeline-dp (in an environment of their own: they pin others).

Others are told as much as ellipsum is: OpenDP adds up distances from the middle of the bounds, which halves its noise,
and PipelineDP does so itself. Their budgets are divided evenly between columns and counts, by their own accountants.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

import ellipsum as es

WIDTH = 8
EPSILON, DELTA = 1.0, 1e-6
NAMES = [f"x{j}" for j in range(WIDTH)]
SIZES = (15, 20, 30, 45, 60, 100, 150, 200)
Means = dict[Any, np.ndarray]
"""A mean for each group that was published, by key."""
Method = Callable[[np.ndarray, np.ndarray, bool], Means]


def _ellipsum(noise: str) -> Method:
    def means(data: np.ndarray, codes: np.ndarray, public: bool) -> Means:
        words: dict[str, Any] = {"neighbors": "add_remove", "missing": "none", "noise": noise, "n": len(data)}
        keys = np.unique(codes).tolist() if public else None
        made = es.mean(data, es.Box(0, 1), by=es.Groups(codes, keys=keys), epsilon=EPSILON, delta=DELTA, **words)
        return dict(zip(made.keys[:, 0].tolist(), made.value, strict=True))  # type: ignore[union-attr]

    return means


def _opendp(gaussian: bool) -> Method:
    """A noisy length and sum of each column for every group, as `dp.polars` chooses their noise."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    loss = dp.loss_of(rho=_rho(), delta=DELTA / 2) if gaussian else dp.loss_of(epsilon=EPSILON, delta=DELTA)

    def means(data: np.ndarray, codes: np.ndarray, public: bool) -> Means:
        frame = pl.DataFrame({"g": codes, **{name: data[:, j] - 0.5 for j, name in enumerate(NAMES)}}).lazy()
        told = {"invariant": "keys"} if public else {}
        margin = dp.polars.Margin(by=["g"], max_length=len(data), max_groups=len(data), **told)
        context = dp.Context.compositor(
            data=frame,
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=loss,
            split_evenly_over=1,
            margins=[margin],
        )
        sums = [pl.col(name).fill_null(0.0).fill_nan(0.0).dp.sum((-0.5, 0.5)) for name in NAMES]
        found = context.query().group_by("g").agg(dp.len(), *sums).release().collect().to_dicts()
        return {line["g"]: np.array([line[name] / max(line["len"], 1) + 0.5 for name in NAMES]) for line in found}

    return means


def _rho() -> float:
    """The largest rho that OpenDP's own conversion puts within (epsilon, delta), half of delta left to thresholds."""
    import opendp.prelude as dp

    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    low, high = 1e-3, 1.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        noise = dp.m.make_gaussian(*space, scale=1 / math.sqrt(2 * middle))
        within = dp.c.make_zCDP_to_approxDP(noise).map(1.0).epsilon(delta=DELTA / 2) <= EPSILON
        low, high = (middle, high) if within else (low, middle)
    return low


def _pipeline_dp(gaussian: bool) -> Method:
    """A mean of each column, in one pipeline with one accountant: the one that serves its noise best."""
    import pipeline_dp

    kind = pipeline_dp.NoiseKind.GAUSSIAN if gaussian else pipeline_dp.NoiseKind.LAPLACE

    def extractors(j: int) -> Any:
        return pipeline_dp.DataExtractors(
            privacy_id_extractor=lambda row: row[0],
            partition_extractor=lambda row: row[1],
            value_extractor=lambda row: float(row[2][j]),
        )

    def selected(rows: Any) -> list[Any]:
        """Groups that are published, for half of delta and as much of epsilon as a column has."""
        accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=EPSILON / (WIDTH + 1), total_delta=DELTA / 2)
        engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
        params = pipeline_dp.SelectPartitionsParams(max_partitions_contributed=1)
        found = engine.select_partitions(rows, params, extractors(0))
        accountant.compute_budgets()
        return list(found)

    def means(data: np.ndarray, codes: np.ndarray, public: bool) -> Means:
        rows = [(i, int(g), row) for i, (g, row) in enumerate(zip(codes, data, strict=True))]
        keys = np.unique(codes).tolist() if public else selected(rows)
        if not keys:
            return {}
        left = (EPSILON, DELTA) if public else (EPSILON * WIDTH / (WIDTH + 1), DELTA / 2)
        accountants = pipeline_dp.PLDBudgetAccountant if gaussian else pipeline_dp.NaiveBudgetAccountant
        accountant = accountants(total_epsilon=left[0], total_delta=left[1])
        engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
        usual = {"noise_kind": kind, "max_partitions_contributed": 1, "max_contributions_per_partition": 1}
        metrics = pipeline_dp.Metrics
        columns = []
        for j in range(WIDTH):
            params = pipeline_dp.AggregateParams(metrics=[metrics.MEAN], min_value=0.0, max_value=1.0, **usual)
            columns.append(engine.aggregate(rows, params, extractors(j), public_partitions=keys))
        accountant.compute_budgets()
        tables = [{g: made.mean for g, made in column} for column in columns]
        return {g: np.array([table[g] for table in tables]) for g in tables[0]}

    return means


def _methods() -> dict[str, Method]:
    found = {"ellipsum, auto": _ellipsum("auto"), "ellipsum, gaussian": _ellipsum("gaussian")}
    if find_spec("opendp") and find_spec("polars"):
        found["OpenDP, Laplace"] = _opendp(gaussian=False)
        found["OpenDP, Gaussian"] = _opendp(gaussian=True)
    else:
        print('OpenDP is not installed, and left out: pip install "opendp[polars]"')
    if find_spec("pipeline_dp"):
        found["PipelineDP, Laplace"] = _pipeline_dp(gaussian=False)
        found["PipelineDP, Gaussian"] = _pipeline_dp(gaussian=True)
    else:
        print("PipelineDP is not installed, and left out: pip install pipeline-dp")
    return found


def _table(sizes: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Groups of these sizes; their means lie within a sixth of the middle."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    middles = 0.5 + rng.uniform(-1, 1, (len(sizes), WIDTH)) / 6
    return middles[codes] + rng.uniform(-1, 1, (len(codes), WIDTH)) / 3, codes


def _error(method: Method, groups: int, size: int, runs: int) -> float:
    """Root mean square, times the size, of all groups and columns."""
    squares = []
    for run in range(runs):
        data, codes = _table(np.full(groups, size), run)
        made = method(data, codes, True)
        truth = data.reshape(groups, size, WIDTH).mean(axis=1)
        squares.append(np.mean([(made[g] - truth[g]) ** 2 for g in range(groups)]))
    return math.sqrt(np.mean(squares)) * size


def _published(method: Method, each: int) -> list[float]:
    """The share of groups of every size that is published, where none is listed."""
    sizes = np.repeat(SIZES, each)
    made = method(*_table(sizes, 0), False)
    return [sum(g in made for g in np.flatnonzero(sizes == size).tolist()) / each for size in SIZES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    methods = _methods()
    print(f"{'':30}{'error x size':>14}{'seconds':>9}   share published of groups of " + ", ".join(map(str, SIZES)))
    for name, method in methods.items():
        begin = time.perf_counter()
        error = _error(method, given.groups, given.size, given.runs)
        seconds = (time.perf_counter() - begin) / given.runs
        shares = " ".join(f"{share:5.2f}" for share in _published(method, 40))
        print(f"{name:30}{error:14.2f}{seconds:9.2f}   {shares}", flush=True)


if __name__ == "__main__":
    main()
