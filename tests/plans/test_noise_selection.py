"""Laws of noise in plans: chosen by forecast, proved, drawn as forecast, and never less than the guarantee needs."""

import dataclasses
import json
import math

import numpy as np
import pytest
from scipy.stats import binom

import ellipsum as es
from ellipsum.noise.block_law import BlockLaw
from ellipsum.noise.law import SphericalLaw
from ellipsum.privacy.spherical_curve import SphericalPrivacy

TERMS = {"epsilon": 1.0, "delta": 1e-6}
PLAIN = {"missing": "none", "count_clipped": False}
FALSE_ALARM = 1e-9


def share(rows, d, **words):
    """Forecast of the chosen law over the Gaussian's."""
    terms = {"statistic": "sum", "n": 1000, "d": d, **TERMS, **PLAIN, **words}
    best = es.plan(bounds=rows, **terms).expected_squared_error
    return best / es.plan(bounds=rows, noise="gaussian", **terms).expected_squared_error


@pytest.mark.parametrize(
    ("d", "most"),
    [(1, 0.115), (2, 0.115), (4, 0.143), (8, 0.213), (16, 0.36), (32, 0.66), (64, 0.90), (128, 0.95)],
)
def test_few_bounded_columns_err_far_less_than_under_gaussian_noise(d, most):
    assert share(es.Box(0.0, 1.0), d) <= most


@pytest.mark.parametrize(("d", "most"), [(1, 0.114), (2, 0.17), (4, 0.28), (8, 0.46), (16, 0.66), (32, 0.81)])
def test_balls_too(d, most):
    assert share(es.Ball(1.0), d) <= most


@pytest.mark.one_in(2)
def test_the_choice_is_the_least_forecast_and_never_above_the_gaussian():
    for d in (1, 3, 10, 40, 300):
        for rows in (es.Box(0.0, 1.0), es.Ball(2.0), es.Normal(np.zeros(d), std=1.0)):
            for words in ({}, PLAIN, {"neighbors": "add_remove"}):
                assert share(rows, d, statistic="mean", **words) <= 1 + 1e-9


def plans():
    box, ball = es.Box(np.zeros(2), np.array([1.0, 3.0])), es.Ball(2.0, center=[1.0, 0.0])
    for rows in (box, ball):
        for relation in ("replace", "add_remove"):
            for delta in (0, 1e-6):
                for words in (PLAIN, {"count_clipped": True}):
                    yield es.plan(
                        "mean", rows, n=50, epsilon=2.0, delta=delta, neighbors=relation, noise="knorm", **words
                    )


@pytest.mark.parametrize("plan", list(plans()), ids=lambda plan: f"{plan.mechanism}-{plan.neighbors}-{len(plan.stds)}")
def test_a_tenth_too_little_noise_is_refused(plan):
    law = plan.law
    if isinstance(law, SphericalLaw):
        short = dataclasses.replace(law, scale=law.scale * 0.9)
    else:
        assert isinstance(law, BlockLaw)
        short = dataclasses.replace(law, scales=(law.scales[0] * 0.9, *law.scales[1:]))
    with pytest.raises(es.UsageError, match="below what the guarantee needs"):
        dataclasses.replace(plan, law=short)
    with pytest.raises(es.UsageError):
        dataclasses.replace(plan, law=None, noise_units=1e9)  # no Gaussian gives a pure guarantee


@pytest.mark.parametrize("plan", list(plans()), ids=lambda plan: f"{plan.mechanism}-{plan.neighbors}-{len(plan.stds)}")
def test_plans_and_releases_are_read_back_and_doctored_ones_refused(plan):
    rows = np.full((50, 2), 0.5)
    release = plan.release(rows, rng=np.random.default_rng(1))
    assert es.from_json(release.to_json()) == release
    assert es.Plan.from_json(plan.to_json()) == plan
    saved = json.loads(plan.to_json())
    law = saved["law"]
    if law["kind"] == "knorm_l2":
        law["scale"] *= 0.99
    else:
        law["scales"][0] *= 0.99
    with pytest.raises(es.UsageError):
        es.Plan.from_json(json.dumps(saved))
    saved = json.loads(plan.to_json())
    saved["request"]["budget"]["epsilon"] = 1.0
    with pytest.raises(es.UsageError):
        es.Plan.from_json(json.dumps(saved))


RUNS = 3000


@pytest.fixture(scope="module")
def drawn():
    """Errors and coverage of many releases under each law."""
    found = {}
    rows = np.column_stack([np.linspace(0, 1, 40), np.linspace(3, 0, 40)])
    for law, stated, words in (
        ("knorm_l2", es.Ball(4.0), {"missing": "drop_row"}),
        ("knorm_linf", es.Box(np.zeros(2), np.array([1.0, 3.0])), PLAIN),
    ):
        plan = es.plan("mean", stated, n=40, d=2, epsilon=3.0, delta=0, **words)
        assert plan.mechanism == law
        rng = np.random.default_rng(5)
        releases = [plan.release(rows, rng) for _ in range(RUNS)]
        values = np.array([release.value for release in releases]) - rows.mean(axis=0)
        spans = np.array([release.confidence_interval(0.9) for release in releases])
        covered = (spans[..., 0] <= rows.mean(axis=0)) & (rows.mean(axis=0) <= spans[..., 1])
        found[law] = plan, values, covered
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize("law", ["knorm_l2", "knorm_linf"])
def test_measured_errors_are_those_of_the_forecast(drawn, law):
    """The mean of squared errors, within 6.2 standard errors of it, and a percent for the count of rows left out."""
    plan, values, _ = drawn[law]
    measured = np.mean(np.sum(values**2, axis=1))
    each = np.std(np.sum(values**2, axis=1)) / math.sqrt(RUNS)
    assert abs(measured - plan.expected_squared_error) < 6.2 * each + 0.01 * plan.expected_squared_error
    assert np.all(np.abs(np.var(values, axis=0) / plan.noise_std**2 - 1) < 0.3)


@pytest.mark.parametrize("law", ["knorm_l2", "knorm_linf"])
def test_intervals_have_the_laws_own_quantiles(drawn, law):
    """At 90% neither far more nor far fewer; 1.645 stds would cover 0.93 of a Laplace law."""
    _, _, covered = drawn[law]
    low, high = binom.ppf(FALSE_ALARM, RUNS, 0.9), binom.isf(FALSE_ALARM, RUNS, 0.91)
    for count in covered.sum(axis=0):
        assert low <= count <= high


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("rows", "far"), [(es.Box(0.0, 1.0), 1.0), (es.Ball(0.5, center=0.5), 1.0)])
def test_neighbors_cannot_be_told_apart_by_more_than_epsilon(rows, far):
    """Two data sets a whole row apart: no event is more than e^epsilon times as likely, tested at 40 thresholds."""
    epsilon, runs = 1.0, 4000
    plan = es.plan("sum", rows, n=5, d=1, epsilon=epsilon, delta=0, **PLAIN)
    first, second = np.zeros((5, 1)), np.zeros((5, 1))
    second[0] = far
    rng = np.random.default_rng(3)
    a = np.array([plan.release(first, rng).value[0] for _ in range(runs)])
    b = np.array([plan.release(second, rng).value[0] for _ in range(runs)])
    closest = 0.0
    for threshold in np.linspace(-2, 3, 40):
        p, q = np.mean(a <= threshold), np.mean(b <= threshold)
        slack = 6.5 * math.sqrt((p + math.exp(2 * epsilon) * q + 1e-3) / runs)
        assert p <= math.exp(epsilon) * q + slack
        closest = max(closest, p / max(q, 1e-3) if p > 0.2 else 0.0)
    assert closest > 0.8 * math.exp(epsilon)  # and the guarantee is used up


def test_pure_budgets_and_what_they_refuse():
    budget = es.Budget(epsilon=1.0, delta=0)
    for asked in (lambda: budget.mu, lambda: budget.rho, lambda: budget.split(1, 1)):
        with pytest.raises(es.UsageError, match="pure"):
            asked()
    with pytest.raises(es.UsageError, match="pure"):
        es.plan("sum", es.Ball(1.0), n=10, d=2, budget=budget, noise="gaussian")
    with pytest.raises(es.UsageError, match="pure"):
        es.plan("sum", es.Unknown(1.0), n=10**6, d=2, budget=budget, noise="gaussian")
    with pytest.raises(es.UsageError, match="epsilon= and delta="):
        es.plan("sum", es.Ball(1.0), n=10, d=2, budget=es.Budget(mu=1.0), noise="knorm")
    with pytest.raises(es.UsageError, match="noise"):
        es.plan("sum", es.Ball(1.0), n=10, d=2, noise="laplace", **TERMS)
    assert es.plan("sum", es.Ball(1.0), n=10, d=2, budget=es.Budget(mu=1.0)).mechanism == "gaussian"
    assert es.plan("sum", es.Ball(1.0), n=10, d=2, budget=es.Budget(rho=1.0)).mechanism == "gaussian"


def test_guarantees_of_every_law_compose():
    ball = es.plan("sum", es.Ball(1.0), n=10, d=3, noise="knorm", **TERMS).privacy
    box = es.plan("sum", es.Box(0.0, 1.0), n=10, d=3, noise="knorm", **TERMS, **PLAIN).privacy
    gaussian = es.plan("sum", es.Ball(1.0), n=10, d=3, noise="gaussian", **TERMS).privacy
    assert isinstance(ball, SphericalPrivacy)
    assert ball.epsilon(1e-6) <= 1.0 + 1e-9
    assert ball.epsilon(0.0) == ball.ratio > 1
    assert box.pure == (1.0,)
    assert box.epsilon(0.0) == 1.0
    together = es.compose([ball, box, gaussian])
    assert together.pure == (ball.ratio, 1.0)
    assert together.mu == gaussian.mu
    assert 1.0 < together.epsilon(1e-6) < 3.5
    assert es.compose([box, box]).epsilon(0.0) == 2.0
    assert es.Privacy.from_dict(together.to_dict()) == together
    with pytest.raises(es.UsageError, match="do not compose"):
        es.compose([ball, dataclasses.replace(box, neighbors="add_remove")])


def test_zero_widths_one_row_and_many_columns():
    rows = es.Box(np.array([0.0, 2.0]), np.array([1.0, 2.0]))
    release = es.mean(np.array([[0.5, 2.0]] * 9), rows, epsilon=1.0, delta=0, rng=np.random.default_rng(0))
    assert release.value[1] == pytest.approx(2.0, abs=1e-9)
    one = es.sum(np.zeros((1, 1)), es.Box(-1.0, 1.0), rng=np.random.default_rng(0), **TERMS)
    assert np.isfinite(one.value).all()
    wide = es.sum(np.zeros((2, 5000)), es.Ball(1.0), noise="knorm", rng=np.random.default_rng(0), **TERMS)
    assert wide.plan.mechanism == "knorm_l2"
    assert np.std(wide.value) == pytest.approx(wide.noise_std[0], rel=0.1)


def test_the_text_names_the_law_and_what_others_would_give():
    text = str(es.plan("mean", es.Box(0.0, 1.0), n=1000, d=3, **TERMS))
    assert "smallest expected error; others: " in text
    assert "Gaussian" in text
    assert "10 such releases" in text


def test_noise_in_blocks_is_refused_where_rows_are_clipped_by_their_norm():
    """A doctored plan: coordinates of an ellipsoid move as far as its body does, not by their own limits."""
    plan = es.plan("sum", es.Box(0.0, 1.0), n=50, d=2, epsilon=1.0, delta=0, noise="knorm", **PLAIN)
    assert isinstance(plan.law, BlockLaw)
    saved = json.loads(plan.to_json())
    saved["request"]["bounds"] = es.Ball(1.0, center=[0.5, 0.5]).to_dict()
    saved["law"]["scales"] = [4.0] * len(saved["law"]["scales"])
    with pytest.raises(es.UsageError, match="below what the guarantee needs"):
        es.Plan.from_json(json.dumps(saved))


def test_intervals_reckon_with_the_far_end_of_each_octave():
    """[U7] A hundred rows in the third octave may each be off by seven radii and more, less what is kept."""
    plan = es.plan("sum", es.Ball(1.0), n=1000, d=1, budget=es.Budget(mu=1e6), count_clipped=True)
    rows = np.zeros((1000, 1))
    rows[:100] = 7.9
    with pytest.warns(es.AccuracyWarning, match="were clipped"):
        release = plan.release(rows, rng=np.random.default_rng(0))
    assert release.clipping_bias.bound[0] == pytest.approx(100 * (8 - 1), rel=1e-3)
    low, high = release.confidence_interval()[0]
    assert low < rows.sum() < high


@pytest.mark.parametrize("zeros", [0.9, 0.97])
def test_intervals_of_one_skewed_column_cover_where_few_octaves_are_told_apart(zeros):
    """[U7] A thousand rows, most of them zero: at 0.95, fewer than 46 of 60 have odds of one in a million."""
    covered = 0
    for seed in range(60):
        generator = np.random.default_rng(seed)
        column = np.where(generator.random(1000) < zeros, 0.0, generator.lognormal(5, 1, 1000))
        rows = es.Normal([float(f"{column.mean():.0e}")], std=float(f"{column.std():.0e}"))
        release = es.mean(column[:, None], rows, rng=generator, **TERMS)
        assert release.plan.auxiliary.octaves == 2
        low, high = release.confidence_interval()[0]
        covered += low <= column.mean() <= high
    assert covered >= 46


def test_many_columns_have_noise_in_blocks_within_a_pure_budget():
    """A sphere's squared noise is 3 times as large where all are as wide, and far larger where few are."""
    words = {"n": 100, "epsilon": 1.0, "delta": 0, "statistic": "mean", **PLAIN}
    even = es.plan(bounds=es.Box(0.0, 1.0), d=300, **words)
    assert even.mechanism == "knorm_linf"
    assert (even.considered["knorm_l2"] / even.considered["knorm_linf"]) ** 2 == pytest.approx(3, rel=0.01)
    steep = es.plan(bounds=es.Box(np.zeros(300), np.arange(1.0, 301) ** -2), **words)
    assert steep.considered["knorm_linf"] < 0.25 * steep.considered["knorm_l2"]
    again = es.Plan.from_json(steep.to_json())
    errors = [
        np.sum(again.release(np.zeros((100, 300)), np.random.default_rng(seed)).raw_value ** 2) for seed in range(200)
    ]
    assert np.mean(errors) == pytest.approx(steep.expected_squared_error, rel=0.5)  # five standard errors


def test_few_wide_columns_among_many_have_noise_in_blocks_with_a_delta_too():
    widths = np.arange(1.0, 201) ** -3
    words = {"n": 1000, "statistic": "mean", **TERMS, **PLAIN}
    uneven = es.plan(bounds=es.Box(np.zeros(200), widths), **words)
    assert uneven.mechanism == "knorm_linf"
    assert uneven.considered["knorm_linf"] ** 2 < 0.8 * uneven.considered["knorm_l2"] ** 2
    assert es.plan(bounds=es.Box(0.0, 1.0), d=200, **words).mechanism == "knorm_l2"
    assert "knorm_linf" not in es.plan(bounds=es.Box(0.0, 1.0), d=200, **words).considered


def test_groups_of_many_columns_may_be_pure():
    """They were refused from 129 columns on."""
    data = np.column_stack([np.arange(40) % 2, np.full((40, 130), 0.5)])
    columns = ["g", *(f"x{j}" for j in range(130))]
    table = {name: data[:, j] for j, name in enumerate(columns)}
    release = es.sum(
        table,
        es.Box(0.0, 1.0),
        by=es.Groups("g", keys=[0.0, 1.0]),
        columns=columns[1:],
        epsilon=1.0,
        delta=0,
        missing="none",
    )
    assert release.value.shape == (2, 130)
    assert release.privacy.pure == (1.0,)
