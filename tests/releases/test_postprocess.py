"""Clean-up of releases: less error where promised, refusals where it could hurt, nothing but post-processing."""

import numpy as np
import pytest

import ellipsum as es

RNG = np.random.default_rng(0)


def releases(plan, x, repeats=400, seed=1):
    rng = np.random.default_rng(seed)
    return [plan.release(x, rng=rng) for _ in range(repeats)]


def gain(found, method, truth, **options):
    """Paired difference of squared errors, of the value before any cut and of the cleaned one, in standard errors."""
    raw = np.array([np.sum((r.raw_value - truth) ** 2) for r in found])
    clean = np.array([np.sum((r.denoise(method, **options).value - truth) ** 2) for r in found])
    difference = raw - clean
    return difference.mean() / (difference.std(ddof=1) / np.sqrt(difference.size))


@pytest.mark.slow
@pytest.mark.parametrize("statistic", ["sum", "mean"])
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_james_stein_helps_near_the_center_and_never_hurts_far_away(statistic, relation):
    n, d = 100, 20
    near = 0.5 + RNG.uniform(-0.2, 0.2, (n, d))
    terms = {
        "epsilon": 0.3,
        "delta": 1e-6,
        "neighbors": relation,
        "missing": "none",
        "noise": "gaussian",
    }
    plan = es.plan(statistic, es.Box(0, 1), n=n, d=d, **terms)
    assert gain(sure(releases(plan, near)), "james_stein", getattr(near, statistic)(axis=0)) > 6.5
    far = np.ones((n, d))
    assert gain(sure(releases(plan, far)), "james_stein", getattr(far, statistic)(axis=0)) > -6.5


def sure(found):
    """The releases whose counts are well above their noise: most of them; of others no mean is shrunk."""
    drowned = [r for r in found if r.statistic == "mean" and (r.counts.rows < 3 * r.counts.stds).any()]
    for release in drowned:
        with pytest.raises(es.UsageError, match="counts"):
            release.denoise("james_stein")
    assert len(drowned) < len(found) / 2
    unsure = {id(r) for r in drowned}
    return [r for r in found if id(r) not in unsure]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_james_stein_with_counts_of_every_column(relation):
    """Rows that lack entries: it helps near the center, does not hurt far from it, for means as for sums."""
    n, d = 2000, 20
    for rows, statistic in ((es.Box(0, 1), "mean"), (es.Box(1, 2), "sum"), (es.Normal(3.0, 1.0), "sum")):
        plan = es.plan(statistic, rows, n=n, d=d, epsilon=0.5, delta=1e-6, noise="gaussian", neighbors=relation)
        center = plan.ellipsoid.center
        for offset, least in ((0.01, 6.5), (0.4, -6.5)):
            x = center + offset + RNG.uniform(-0.05, 0.05, (n, d))
            x[RNG.random((n, d)) < np.linspace(0, 0.5, d)] = np.nan
            truth = np.nanmean(x, axis=0) if statistic == "mean" else np.nansum(x, axis=0)
            found = releases(plan, x)
            assert gain(found, "james_stein", truth) > least, (statistic, offset)


def test_james_stein_is_refused_where_counts_drown():
    x = RNG.uniform(0, 1, (100, 20))
    made = es.mean(x, es.Box(0, 1), epsilon=0.3, delta=1e-6, noise="gaussian")
    with pytest.raises(es.UsageError, match="counts"):
        made.denoise("james_stein")


def test_james_stein_is_refused_where_it_could_raise_the_error():
    x = RNG.uniform(0, 1, (50, 3))
    skewed = es.mean(x, es.Box(0, [1, 1, 1000]), epsilon=1, delta=1e-6, noise="gaussian")
    with pytest.raises(es.UsageError, match="james_stein"):
        skewed.denoise("james_stein")


def test_soft_threshold_returns_idle_columns_to_the_center():
    n, d = 200, 400
    x = np.full((n, d), 0.5)
    x[:, 0] = 1.0
    plan = es.plan("mean", es.Box(0, 1), n=n, d=d, epsilon=1, delta=1e-6, noise="gaussian")
    found = releases(plan, x, 50)
    assert gain(found, "soft_threshold", x.mean(axis=0)) > 6.5
    idle = np.stack([r.denoise("soft_threshold").value[1:] for r in found])
    assert np.mean(idle == 0.5) > 0.99
    with pytest.raises(es.UsageError, match="threshold"):
        found[0].denoise("soft_threshold", threshold=-1)


@pytest.mark.parametrize("statistic", ["sum", "mean"])
def test_clamping_moves_into_the_stated_bounds(statistic):
    n = 5
    x = np.ones((n, 2))
    terms = {"epsilon": 0.5, "delta": 1e-6, "noise": "gaussian"}
    plan = es.plan(statistic, es.Box(0, 1), n=n, d=2, missing="none", **terms)
    found = releases(plan, x, 100)
    top = n if statistic == "sum" else 1
    values = np.stack([r.denoise("clamp").value for r in found])
    assert (values >= 0).all()
    assert (values <= top).all()
    assert (values == top).any()
    truth = x.sum(axis=0) if statistic == "sum" else x.mean(axis=0)
    raw = np.mean([np.sum((r.raw_value - truth) ** 2) for r in found])
    assert raw / np.mean(np.sum((values - truth) ** 2, axis=1)) > 6.5
    if statistic == "mean":  # means are within their bounds already; counts of their own change nothing
        counted = releases(es.plan("mean", es.Box(0, 1), n=n, d=2, **terms), x, 100)
        assert all(((r.value >= 0) & (r.value <= 1)).all() for r in counted)
    own = found[0].denoise("clamp", lower=[0.2, 0.3], upper=0.4).value
    assert ((own >= [0.2, 0.3]) & (own <= 0.4)).all()


def test_the_ball_and_unknown_counts():
    x = np.ones((5, 2))
    ball = es.mean(x, es.Ball(2.0, center=1.0), epsilon=0.1, delta=1e-6, noise="gaussian").denoise("clamp").value
    assert ((ball >= -1) & (ball <= 3)).all()
    unknown = es.sum(x, es.Box(0, 1), epsilon=1, delta=1e-6, noise="gaussian", neighbors="add_remove")
    with pytest.raises(es.UsageError, match="private number"):
        unknown.denoise("clamp")


def test_a_denoised_release_says_so_and_keeps_its_guarantee():
    x = RNG.uniform(0, 1, (50, 5))
    made = es.mean(x, es.Box(0, 1), epsilon=1, delta=1e-6, noise="gaussian")
    clean = made.denoise("clamp")
    assert clean.denoised == "clamp"
    assert "by clamp" in repr(clean)
    assert clean.privacy == made.privacy
    assert es.from_json(clean.to_json()) == clean
    for call, word in (
        (lambda: clean.denoise("clamp"), "already"),
        (lambda: made.denoise("magic"), "method"),
        (lambda: made.denoise("wiener"), "Normal"),
        (lambda: made.denoise("clamp", lower=1, upper=0), "lower"),
        (lambda: made.denoise("james_stein", strength=3), "strength"),
    ):
        with pytest.raises(es.UsageError, match=word):
            call()


@pytest.mark.parametrize("method", ["clamp", "wiener"])
def test_a_friendly_mean_has_no_bounds_to_clean_by(method):
    made = es.friendly_mean(np.zeros((2000, 2)), 1.0, epsilon=5, delta=1e-6)
    with pytest.raises(es.UsageError):
        made.denoise(method)
