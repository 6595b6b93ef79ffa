"""Plans: shapes, forecasts, the unknown count, JSON, and what is refused."""

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import ellipsum as es
from ellipsum.row_maps.maps import noise_units, sqrt_upper

BUDGET = es.Budget(mu=0.5)
TINY = 1e-9  # the grid's own inflation of the sensitivity is below 2^-40 d


def make(bounds, statistic="sum", **more):
    return es.plan(statistic, bounds, **{"n": 100, "budget": BUDGET, "count_clipped": False, **more})


def test_ball_has_the_gaussian_mechanisms_noise():
    plan = make(es.Ball(3.0), d=4)
    assert plan.noise_std == pytest.approx(np.full(4, 2 * 3.0 / 0.5), rel=TINY)
    assert plan.expected_squared_error == pytest.approx(4 * 12.0**2, rel=TINY)


def test_box_has_the_elliptical_mechanisms_noise():
    widths = np.array([1.0, 4.0, 9.0])
    plan = make(es.Box(-widths / 2, widths / 2))
    assert plan.noise_std**2 == pytest.approx(widths * widths.sum() / 0.25, rel=TINY)
    ball = make(es.Box(-widths / 2, widths / 2, shape="ball"))
    assert ball.noise_error == pytest.approx(3 * np.sum(widths**2) / 0.25, rel=TINY)


def test_box_shape_is_the_best_diagonal():
    """No perturbation of the scales that still holds the corners has less noise."""
    rng = np.random.default_rng(5)
    half = np.array([0.1, 2.0, 5.0, 40.0])
    weights = np.array([1.0, 5.0, 0.3, 2.0])
    plan = make(es.Box(-half, half), error_weights=weights)
    best = float(np.sum(weights * plan.noise_std**2))
    for _ in range(200):
        scale = plan.ellipsoid.scale * np.exp(rng.normal(0, 0.2, 4))
        scale /= np.linalg.norm(scale * half)
        assert np.sum(weights / scale**2) * (2 / 0.5) ** 2 > best * (1 - 1e-6)


def test_relative_weights_share_the_noise_by_width():
    widths = np.array([0.01, 1.0, 1000.0])
    plan = make(es.Box(np.zeros(3), widths), error_weights="relative")
    assert plan.noise_std == pytest.approx(widths * np.sqrt(3) / 0.5, rel=1e-8)
    with pytest.raises(es.UsageError, match="weights"):
        make(es.Box(np.zeros(3), widths), error_weights="even")
    with pytest.raises(es.UsageError, match="range or std"):
        make(es.Ball(1.0), d=3, error_weights="relative")


def test_equal_weights_are_plain_units_and_names_ask_for_relative_ones():
    """Columns with names share no unit; "equal" says that they do."""
    lower, upper = [0, 0], [1, 1000]
    nameless = make(es.Box(lower, upper))
    for rows in (es.Box(lower, upper), es.Box({"a": (0, 1), "b": (0, 1000)})):
        assert np.array_equal(make(rows, error_weights="equal").noise_std, nameless.noise_std)
        assert np.array_equal(make(rows, error_weights=[1.0, 1.0]).noise_std, nameless.noise_std)
    relative = make(es.Box(lower, upper), error_weights="relative").noise_std
    for named in (
        make(es.Box({"a": (0, 1), "b": (0, 1000)})),
        make(es.Box(lower, upper), columns=["a", "b"]),
        make(es.Box(lower, upper, columns=("a", "b"))),
    ):
        assert np.array_equal(named.noise_std, relative)
    entries = make(es.Box(lower, upper), columns=["v[0]", "v[1]"])  # of one list column
    assert np.array_equal(entries.noise_std, nameless.noise_std)
    normal, spread = es.Normal([0.0, 0.0], std=[1.0, 9.0]), {"a": (0, 1), "b": (0, 9)}
    by_name = make(es.Normal(spread)).noise_std
    assert np.array_equal(by_name, make(normal, error_weights="relative").noise_std)
    assert not np.allclose(by_name, make(normal).noise_std, rtol=0.1)


def test_mean_divides_by_n():
    total, mean = (make(es.Box([0, 0], [1, 2]), statistic=what, missing="none") for what in ("sum", "mean"))
    assert mean.noise_std == pytest.approx(total.noise_std / 100)
    assert mean.expected_squared_error == pytest.approx(total.expected_squared_error / 100**2)


def test_a_mean_over_the_rows_that_have_a_column_is_forecast_with_its_count():
    """[U6] Absences count sqrt(3) half-widths, and the mean is taken to lie h/sqrt(3) from the middle: a ninth more."""
    plain = make(es.Box([0, 0], [1, 2]), statistic="mean", missing="none")
    counted = make(es.Box([0, 0], [1, 2]), statistic="mean")
    assert counted.noise_std == pytest.approx(plain.noise_std, rel=TINY)
    widened = plain.expected_error**2 * 10 / 9 * (1 + 3 * (counted.absence_stds / 100) ** 2)
    assert counted.expected_squared_error == pytest.approx(float(widened.sum()), rel=1e-5)


@pytest.mark.parametrize("d", [1, 2, 10, 1000])
def test_unknown_count_of_unit_cube_sums_reaches_the_correlated_noise_bound(d):
    plan = make(es.Box(0.0, 1.0), d=d, neighbors="add_remove")
    assert plan.noise_std == pytest.approx(np.full(d, (math.sqrt(d) + 1) / 2 / 0.5), rel=1e-8)


def test_count_weight_is_the_best():
    """Any other weight of the count costs more, by the formula of [U2]."""
    plan = make(es.Box([0, 10], [1, 14]), neighbors="add_remove", missing="none")
    trace, center = plan.ellipsoid.trace, plan.ellipsoid.center

    def error(kappa):
        return (1 + kappa**2) * (trace + center @ center / kappa**2) / 0.25

    assert plan.noise_error == pytest.approx(error(plan.count_weight), rel=1e-8)
    assert error(plan.count_weight) < min(error(plan.count_weight * 1.1), error(plan.count_weight / 1.1))


def test_sum_about_the_origin_needs_no_count():
    plan = make(es.Ball(1.0), d=3, neighbors="add_remove")
    assert plan.count_units == 0
    assert plan.noise_std == pytest.approx(np.full(3, 1 / 0.5), rel=TINY)


def test_noise_covers_the_sensitivity_exactly():
    for mu in (1e-6, 0.1, 1 / 3, 7.3):
        for relation in ("replace", "add_remove"):
            plan = make(es.Box([0, 1], [1, 3]), budget=es.Budget(mu=mu), neighbors=relation)
            needed = plan.row_map.body.sensitivity(relation, plan.count_units)
            assert Fraction(plan.noise_units) * Fraction(plan.privacy.mu) >= needed
            assert Fraction(plan.noise_units) * Fraction(plan.privacy.mu) < needed * (1 + Fraction(1, 2**50))


def test_square_roots_round_up():
    for square in (Fraction(2), Fraction(1, 3), Fraction(2**81 + 1), Fraction(0)):
        assert sqrt_upper(square) ** 2 >= square
    assert noise_units(Fraction(1, 3), 1.0) >= Fraction(1, 3)


def test_a_plan_cannot_claim_more_than_its_noise():
    plan = make(es.Box([0, 1], [1, 3]))
    with pytest.raises(es.UsageError, match="guarantee"):
        dataclasses.replace(plan, noise_units=plan.noise_units * 0.999)
    fields = json.loads(plan.to_json())
    for tampering in ({"noise_units": 1.0}, {"noise_units": float("nan")}, {"grid_bits": 60}):
        with pytest.raises(es.UsageError):
            es.Plan.from_json(json.dumps({**fields, **tampering}))


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("statistic", ["sum", "mean"])
def test_json_round_trip(relation, statistic):
    plan = make(es.Box({"a": (0, 1), "b": (2, 9)}), neighbors=relation, statistic=statistic)
    again = es.Plan.from_json(plan.to_json())
    assert again.to_json() == plan.to_json()
    assert np.array_equal(again.noise_std, plan.noise_std)
    assert again.privacy == plan.privacy
    for text in ("{}", "[]", "nonsense", *(json.dumps({"format": f"ellipsum.plan/{k}"}) for k in (1, 2, 3))):
        with pytest.raises(es.UsageError):
            es.Plan.from_json(text)


def test_noise_covariance_has_the_stds_on_its_diagonal():
    plan = make(es.Box([0, 1], [1, 3]), neighbors="add_remove", missing="none")
    assert np.sqrt(np.diag(plan.noise_cov)) == pytest.approx(plan.noise_std)
    assert np.trace(plan.noise_cov) == pytest.approx(plan.noise_error)
    assert plan.noise_cov[0, 1] > 0  # the count's noise is shared


def test_constant_columns_get_no_noise():
    plan = make(es.Box([0, 5], [1, 5]), missing="none")
    assert plan.noise_std[1] == 0
    assert plan.noise_std[0] == pytest.approx(1 * 2 / 2 / 0.5, rel=TINY)
    assert make(es.Box([5, 5], [5, 5]), missing="none").noise_error == 0
    assert make(es.Box([5, 5], [5, 5]), statistic="mean").noise_error == 0


def test_the_sum_of_a_constant_column_errs_by_its_noisy_count():
    """Where an entry may be missing, the sum is 5 times the rows that have it, and these have to be counted."""
    plan = make(es.Box([0, 5], [1, 5]))
    assert plan.noise_std[1] == 0
    assert plan.noise_std[0] == pytest.approx(1 * 2 / 2 / 0.5, rel=5e-3)
    count_std = plan.noise_units / plan.auxiliary.absences[1]
    assert plan.noise_error == pytest.approx(plan.noise_std[0] ** 2 + (5 * count_std) ** 2, rel=1e-9)


def test_repr_says_what_matters():
    text = repr(make(es.Box([0, 1], [1, 3]), statistic="mean"))
    assert "mean of 2 columns" in text
    assert "n = 100" in text
    assert "mu = 0.5" in text
    assert "needs" not in text
    guess = es.plan("mean", es.Box([0, 1], [1, 3]), budget=BUDGET, neighbors="add_remove")
    assert guess.noise_std is None
    assert "pass n=" in repr(guess)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"budget": None}, "budget"),
        ({"epsilon": 1.0}, "budget"),
        ({"budget": None, "epsilon": 1.0}, "delta"),
        ({"budget": None, "epsilon": 0.0, "delta": 1e-6}, "epsilon"),
        ({"budget": None, "epsilon": -1.0, "delta": 1e-6}, "epsilon"),
        ({"budget": None, "epsilon": float("nan"), "delta": 1e-6}, "epsilon"),
        ({"budget": None, "epsilon": 1.0, "delta": 1.0}, "delta"),
        ({"budget": None, "epsilon": 1.0, "delta": -1e-6}, "delta"),
        ({"n": None}, "n is missing"),
        ({"n": 0}, "n must"),
        ({"n": 2.5}, "n must"),
        ({"d": 3}, "different numbers of columns"),
        ({"statistic": "median"}, "statistic"),
        ({"neighbors": "swap"}, "neighbors"),
        ({"error_weights": [1.0]}, "weights"),
        ({"error_weights": [1.0, 0.0]}, "weights"),
        ({"columns": ["a"]}, "different numbers of columns"),
    ],
)
def test_wrong_plans_are_refused_in_one_line(change, word):
    with pytest.raises(es.UsageError, match=word) as caught:
        make(es.Box([0, 1], [1, 3]), **change)
    assert "\n" not in str(caught.value)


def test_width_must_be_known():
    with pytest.raises(es.UsageError, match="d is missing"):
        make(es.Ball(1.0))
    with pytest.raises(es.UsageError, match="Box expects"):
        make({"radius": 1})


@pytest.mark.parametrize("noise", ["auto", "gaussian", "knorm"])
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
def test_columns_that_cannot_vary_are_published_as_they_are_stated(neighbors, noise):
    words = {"epsilon": 1, "delta": 1e-6, "neighbors": neighbors, "noise": noise, "n": 10}
    release = es.mean(np.full((10, 2), 5), es.Box(5, 5), **words)
    assert release.value.tolist() == [5.0, 5.0]


def test_a_law_out_of_range_is_passed_over():
    """The widest column has a square that blocks of columns can no longer hold; other laws can."""
    words = {"n": 10, "epsilon": 1, "delta": 1e-6, "statistic": "mean"}
    assert es.plan(bounds=es.Box([-1e100, 0], [1e100, 1]), **words).mechanism in ("knorm_l2", "gaussian")
    with pytest.raises(es.UsageError, match="too large for doubles"):
        es.plan(bounds=es.Box(-1e200, 1e200), d=2, **words)


def test_changes_to_one_plan_reach_no_other():
    """Plans are remembered, so callers share them."""
    first = make(es.Box(0.0, 1.0), d=2)
    untouched = first.to_json()
    with pytest.raises(ValueError, match="read-only"):
        first.ellipsoid.center[:] = 99.0
    first.stated["mu"] = 99.0
    assert make(es.Box(0.0, 1.0), d=2).to_json() == untouched


def test_columns_in_another_order_than_their_bounds_are_refused():
    rows = es.Box({"age": (0, 120), "income": (0, 200_000)})
    for call in (
        lambda: es.plan("sum", rows, columns=["income", "age"], n=100, budget=BUDGET),
        lambda: es.mean({"age": [40.0], "income": [1e4]}, rows, columns=["income", "age"], budget=BUDGET),
    ):
        with pytest.raises(es.UsageError, match="in one order"):
            call()
    assert es.plan("sum", rows, columns=["age", "income"], n=100, budget=BUDGET) == es.plan(
        "sum", rows, n=100, budget=BUDGET
    )


def test_columns_other_than_those_with_bounds_are_refused():
    rows = es.Box({"age": (0, 120), "income": (0, 200_000)})
    table = {"age": [40.0], "height": [170.0], "income": [1e4]}
    for call in (
        lambda: es.plan("sum", rows, columns=["age", "height"], n=100, budget=BUDGET),
        lambda: es.mean(table, rows, columns=["age", "height"], budget=BUDGET),
    ):
        with pytest.raises(es.UsageError, match="columns: 'age', 'height'"):
            call()
    assert es.mean(np.ones((9, 3)), rows, columns=[0, 2], budget=BUDGET).names() == ("age", "income")


@pytest.mark.parametrize("how", ["array", "batches", "ledger", "people", "groups"])
@pytest.mark.parametrize(
    "statistic", ["sum", "mean", "describe", "describe with quantiles", "quantiles", "histogram", "learned"]
)
def test_under_replace_a_plan_is_for_its_own_number_of_rows(statistic, how):
    """[U1] With one row more or less nothing is released, whether rows are counted before or while they are read."""
    if (statistic, how) == ("learned", "batches"):
        return  # read several times: refused
    words = {"people": {"privacy_id": "who"}, "groups": {"by": es.Groups("g", ["a", "b"])}}.get(how, {})
    own = {
        "describe": {"quantiles": None},
        "quantiles": {"bins": 8},
        "histogram": {"bounds": None, "bins": {"x": [0, 1, 2]}},
        "learned": {"bounds": es.Unknown(100.0, columns=("x",)), "noise": "gaussian"},
    }.get(statistic, {})
    name = {"learned": "mean"}.get(statistic, statistic.split()[0])
    plan = es.plan(name, **{"bounds": {"x": (0, 2)}, "n": 500, "epsilon": 5, "delta": 1e-6, **own, **words})
    for rows in (499, 501):
        table = pa.table({"x": np.ones(rows), "who": np.arange(rows), "g": ["a"] * rows})
        account = es.Ledger.in_memory(epsilon=50, delta=1e-3) if how == "ledger" else None
        data = iter(table.to_batches(max_chunksize=100)) if how == "batches" else table
        with pytest.raises(es.UsageError, match=f"made for 500 .* {rows}"):
            plan.release(data, columns=["x"], ledger=account)
        assert account is None or account.remaining == {"epsilon": 50, "delta": 1e-3}
