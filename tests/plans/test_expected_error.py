"""The expected error of a plan is the standard error that its release shows, for data as described."""

import numpy as np
import pytest

import ellipsum as es

N, D = 4000, 3
SPEND = {"epsilon": 1.0, "delta": 1e-6}
HALF = np.array([1.0, 2.0, 10.0])
MIDDLE = np.array([0.0, 5.0, -3.0])
STD = np.array([1.0, 2.0, 5.0])
BOUNDS = {
    "box": es.Box(MIDDLE - HALF, MIDDLE + HALF),
    "ball": es.Ball(10.0, MIDDLE),
    "normal": es.Normal(MIDDLE, std=STD),
    "cov": es.Normal(MIDDLE, cov=np.diag(STD**2) + 0.5),
    "exact": es.Normal(MIDDLE, std=STD, center_error=0.0),
}


def rows_like(bounds, n, kind, seed=0):
    """Rows whose mean is as far from the center in every column as the description has it, and whose law is that."""
    rng = np.random.default_rng(seed)
    distances = bounds.resolve(D).distances(D, n)
    if kind in ("box", "ball"):
        spread = np.minimum(HALF, 10.0) * 0.2
        x = rng.uniform(-1, 1, (n, D)) * spread
    else:
        cov = np.diag(STD**2) if bounds.cov is None else bounds.cov
        x = rng.multivariate_normal(np.zeros(D), cov, n)
    return MIDDLE + x - x.mean(axis=0) + distances


@pytest.mark.parametrize("count_clipped", [True, False])
@pytest.mark.parametrize("missing", ["skip", "drop_row", "none", 1.0])
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("statistic", ["sum", "mean"])
@pytest.mark.parametrize("kind", BOUNDS)
def test_a_release_shows_the_expected_error(kind, statistic, relation, missing, count_clipped):
    """Up to the noise of counts, which enter both: a few percent."""
    bounds = BOUNDS[kind]
    if missing == 1.0 and kind == "box":
        missing = MIDDLE.tolist()
    terms = {"neighbors": relation, "missing": missing, "count_clipped": count_clipped, **SPEND}
    for noise in ("auto", "gaussian"):
        plan = es.plan(statistic, bounds, n=N, d=D, noise=noise, **terms)
        release = plan.release(rows_like(bounds, N, kind), rng=np.random.default_rng(1))
        assert not release.warnings
        near = 0.1 if kind == "exact" else 0.03  # the center itself is nearly the mean: its noisy distance counts
        assert release.standard_error == pytest.approx(plan.expected_error, rel=near)
        squared = plan.expected_squared_error
        assert float(plan.expected_error @ plan.expected_error) == pytest.approx(squared, rel=1e-12)
        assert squared == pytest.approx(plan.noise_error + plan.clipping_error, rel=1e-12)


@pytest.mark.parametrize("statistic", ["sum", "mean"])
@pytest.mark.parametrize("noise", ["gaussian", "knorm"])
@pytest.mark.parametrize("missing", ["skip", "none"])
@pytest.mark.parametrize("kind", ["box", "normal"])
def test_groups_show_the_expected_error(kind, statistic, noise, missing):
    if kind == "normal" and noise == "knorm":
        return  # K-norm noise of groups needs bounds
    bounds, sizes = BOUNDS[kind], N
    x = np.concatenate([rows_like(bounds, sizes, kind, seed) for seed in range(4)])
    data = {**{name: x[:, j] for j, name in enumerate("abc")}, "g": np.repeat(["p", "q", "r", "s"], sizes)}
    groups = es.Groups("g", keys=["p", "q", "r", "s"])
    plan = es.plan(
        statistic, bounds, n=4 * N, d=D, by=groups, noise=noise, missing=missing, columns=list("abc"), **SPEND
    )
    release = plan.release(data, rng=np.random.default_rng(2))
    assert plan.size == sizes
    for errors in release.standard_error:
        assert errors == pytest.approx(plan.expected_error, rel=0.05)


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("kind", BOUNDS)
def test_measured_errors_are_the_expected_ones(kind, relation):
    """Root mean square over columns and 300 releases, within what chance allows."""
    bounds, repeats = BOUNDS[kind], 300
    plan = es.plan("mean", bounds, n=N, d=D, neighbors=relation, **SPEND)
    x = rows_like(bounds, N, kind)
    rng = np.random.default_rng(3)
    errors = np.array([plan.release(x, rng=rng).raw_value - x.mean(axis=0) for _ in range(repeats)])
    squares = np.mean((errors / plan.expected_error) ** 2, axis=1)
    se = squares.std(ddof=1) / np.sqrt(repeats)
    assert squares.mean() < 1 + 5 * se
    if kind != "normal" and kind != "cov":  # the error of a given center is a guess, and may be less
        assert squares.mean() > 1 - 5 * se - 0.15
