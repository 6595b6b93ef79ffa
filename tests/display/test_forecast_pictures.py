"""Pictures of plans: what they draw is what planning anew gives."""

import math

import numpy as np
import pytest
from legible import check_legible

import ellipsum as es
from ellipsum.plans.pictures import curves_of, error_of, radii_of, shapes_of

SPEND = {"epsilon": 1.0, "delta": 1e-6}
BOX = es.Box({"age": (0, 110), "income": (0, 250_000), "sleep": (0, 16)})
NORMAL = es.Normal([0.0, 1.0], cov=[[2.0, 0.5], [0.5, 1.0]])


PLANS = {
    "box": lambda: es.plan(BOX, n=300, statistic="mean", **SPEND),
    "box sum": lambda: es.plan(BOX, n=300, statistic="sum", noise="gaussian", check=True, **SPEND),
    "add_remove": lambda: es.plan(BOX, n=300, statistic="mean", neighbors="add_remove", missing="row", **SPEND),
    "describe": lambda: es.plan(BOX, n=300, statistic="describe", missing="row", covariance=True, **SPEND),
    "people, pure": lambda: es.plan(BOX, n=300, statistic="mean", privacy_id="who", epsilon=2.0, delta=0.0),
    "ball, rho": lambda: es.plan(es.Ball(2.0, [1.0, 5.0]), n=300, statistic="mean", budget=es.Budget(rho=0.1)),
    "normal": lambda: es.plan(NORMAL, n=300, statistic="mean", clip="quantile", noise="gaussian", **SPEND),
    "unknown": lambda: es.plan(es.Unknown(9.0), n=3000, d=2, **SPEND),
    "groups": lambda: es.plan(BOX, n=3000, groups=7, by="city", statistic="mean", **SPEND),
    "listed": lambda: es.plan(BOX, n=3000, keys=["a", "b"], by="city", neighbors="add_remove", **SPEND),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_made_again_is_the_same(name):
    plan = PLANS[name]()
    assert es.replan(plan) == plan
    budget = es.Budget(**{name: value / (2 if name != "delta" else 1) for name, value in plan.stated.items()})
    other = es.replan(plan, budget=budget)
    assert error_of(other)[0] > error_of(plan)[0]


def test_a_plan_from_data_is_made_again_for_its_types():
    x = np.arange(200).reshape(100, 2) % 5
    release = es.mean(x, es.Box(0, 5), rng=np.random.default_rng(0), **SPEND)  # whole numbers have no gaps
    assert es.replan(release.plan) == release.plan
    floats = es.mean(x.astype(float), es.Box(0, 5), rng=np.random.default_rng(0), **SPEND)
    assert es.replan(floats.plan) == floats.plan != release.plan


def test_the_release_after_learning_has_a_plan_that_is_drawn():
    x = np.random.default_rng(0).normal(5, 1, (500, 2))
    release = es.mean(x, es.Unknown(50.0), rng=np.random.default_rng(0), **SPEND)
    check_legible(release.plan.plot())


def test_errors_are_those_of_plans_at_each_budget():
    plan = es.plan(BOX, n=300, statistic="mean", **SPEND)
    curves = curves_of(plan)
    assert set(curves.lines) == {"gaussian", "ball", "box"}
    assert curves.point == (1.0, error_of(plan)[0])
    for law, words in (("gaussian", "gaussian"), ("box", "norm")):
        budgets, errors = curves.lines[law]
        for place in (0, 4, 8):
            made = es.plan(BOX, n=300, statistic="mean", epsilon=budgets[place], delta=1e-6, noise=words)
            assert made.mechanism == law
            assert errors[place] == pytest.approx(error_of(made)[0], rel=1e-12)
        assert budgets[4] == pytest.approx(1.0)
    share = np.sqrt(np.mean((plan.column_errors() / np.array([110, 250_000, 16])) ** 2))
    assert error_of(plan) == (pytest.approx(share), "rms error / width")


def test_laws_that_do_not_serve_a_budget_are_not_drawn():
    pure = curves_of(es.plan(BOX, n=300, statistic="mean", epsilon=1.0, delta=0.0))
    assert set(pure.lines) == {"ball", "box"}
    rho = curves_of(es.plan(BOX, n=300, statistic="mean", budget=es.Budget(rho=0.1)))
    assert set(rho.lines) == {"gaussian"}
    assert rho.budget == "rho"
    assert curves_of(es.plan(BOX, statistic="mean", neighbors="add_remove", **SPEND)) is None  # n is missing


def test_the_ellipse_is_the_noise_of_the_columns_that_are_named():
    plan = es.plan(BOX, n=300, statistic="mean", **SPEND)
    shapes = shapes_of(plan, ("income", "age"))
    assert shapes.names == ("income", "age")
    own = shapes.covariances["this plan"]
    assert np.sqrt(np.diag(own)) == pytest.approx(plan.noise_std[[1, 0]])
    equal = np.sqrt(np.diag(shapes.covariances["equal Gaussian noise"]))
    assert equal[0] == pytest.approx(equal[1])
    ball = es.plan(BOX, n=300, statistic="mean", shape="ball", noise="gaussian", **SPEND)
    assert equal[0] == pytest.approx(ball.noise_std[0])
    slanted = shapes_of(es.plan(NORMAL, n=300, statistic="mean", noise="gaussian", **SPEND)).covariances["this plan"]
    assert slanted[0, 1] > 0
    for wrong in (("age",), ("age", "age"), ("age", "nothing")):
        with pytest.raises(es.UsageError):
            plan.plot(columns=wrong)


def test_other_radii_cost_what_plans_with_them_forecast():
    plan = es.plan(NORMAL, n=300, statistic="mean", noise="gaussian", weights="equal", **SPEND)
    radii = radii_of(plan)
    total = np.hypot(radii.noise, radii.clipping)
    assert radii.point == (plan.clip_radius, math.sqrt(plan.expected_squared_error))
    place = int(np.argmin(abs(radii.radii - plan.clip_radius)))
    assert total[place] == pytest.approx(radii.point[1], rel=0.01)
    assert radii.point[1] <= total.min() * (1 + 1e-3)  # the radius of least error
    assert radii_of(es.plan(BOX, n=300, **SPEND)) is None


@pytest.mark.parametrize("name", PLANS)
def test_plans_are_legible(name):
    check_legible(PLANS[name]().plot())


def test_odd_names_and_hopeless_plans_are_drawn(tmp_path):
    names = {"$a$" * 60: (0, 1e-9), "收" * 100: (-1e9, 1e12)}
    check_legible(es.plan(es.Box(names), n=100, statistic="mean", **SPEND).plot(tmp_path / "plan.svg"))
    unknown = es.plan(es.Ball(1.0), d=1, statistic="mean", neighbors="add_remove", **SPEND)
    assert any("state n=" in text for text, _ in check_legible(unknown.plot()))
