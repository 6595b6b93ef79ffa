"""Pictures of plans: what they draw is what planning anew gives."""

import numpy as np
import pytest
from legible import check_legible

import ellipsum as es
from ellipsum.plans.pictures import curves_of, shapes_of

SPEND = {"epsilon": 1.0, "delta": 1e-6}
BOX = es.Box({"age": (0, 110), "income": (0, 250_000), "sleep": (0, 16)})
NORMAL = es.Normal([0.0, 1.0], cov=[[2.0, 0.5], [0.5, 1.0]])


PLANS = {
    "box": lambda: es.plan("mean", BOX, n=300, **SPEND),
    "box sum": lambda: es.plan("sum", BOX, n=300, noise="gaussian", count_clipped=True, **SPEND),
    "add_remove": lambda: es.plan("mean", BOX, n=300, neighbors="add_remove", missing="drop_row", **SPEND),
    "describe": lambda: es.plan("describe", BOX, n=300, missing="drop_row", covariance=True, **SPEND),
    "people, pure": lambda: es.plan("mean", BOX, n=300, privacy_id="who", epsilon=2.0, delta=0.0),
    "ball, rho": lambda: es.plan("mean", es.Ball(2.0, [1.0, 5.0]), n=300, budget=es.Budget(rho=0.1)),
    "normal": lambda: es.plan(
        "mean", es.Normal([0.0, 1.0], cov=[[2.0, 0.5], [0.5, 1.0]], clip="quantile"), n=300, noise="gaussian", **SPEND
    ),
    "unknown": lambda: es.plan("sum", es.Unknown(9.0), n=3000, d=2, **SPEND),
    "groups": lambda: es.plan("mean", BOX, n=3000, by=es.Groups("city", expected=7), **SPEND),
    "listed": lambda: es.plan(
        "sum", BOX, n=3000, by=es.Groups("city", keys=["a", "b"]), neighbors="add_remove", **SPEND
    ),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", PLANS)
def test_a_plan_made_again_is_the_same(name):
    plan = PLANS[name]()
    assert es.replan(plan) == plan
    budget = es.Budget(**{name: value / (2 if name != "delta" else 1) for name, value in plan.stated.items()})
    other = es.replan(plan, budget=budget)
    assert other.budget_error[0] > plan.budget_error[0]


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
    plan = es.plan("mean", BOX, n=300, **SPEND)
    curves = curves_of(plan)
    assert set(curves.lines) == {"gaussian", "knorm_l2", "knorm_linf"}
    assert curves.point == (1.0, plan.budget_error[0])
    for law, words in (("gaussian", "gaussian"), ("knorm_linf", "knorm")):
        budgets, errors = curves.lines[law]
        for place in (0, 4, 8):
            made = es.plan("mean", BOX, n=300, epsilon=budgets[place], delta=1e-6, noise=words)
            assert made.mechanism == law
            assert errors[place] == pytest.approx(made.budget_error[0], rel=1e-12)
        assert budgets[4] == pytest.approx(1.0)
    share = np.sqrt(np.mean((plan.expected_error / np.array([110, 250_000, 16])) ** 2))
    assert plan.budget_error == (pytest.approx(share), "RMS error / range")


def test_laws_that_do_not_serve_a_budget_are_not_drawn():
    pure = curves_of(es.plan("mean", BOX, n=300, epsilon=1.0, delta=0.0))
    assert set(pure.lines) == {"knorm_l2", "knorm_linf"}
    rho = curves_of(es.plan("mean", BOX, n=300, budget=es.Budget(rho=0.1)))
    assert set(rho.lines) == {"gaussian"}
    assert rho.budget == "rho"
    assert curves_of(es.plan("mean", BOX, neighbors="add_remove", **SPEND)) is None  # n is missing


def test_the_ellipse_is_the_noise_of_the_columns_that_are_named():
    plan = es.plan("mean", BOX, n=300, **SPEND)
    shapes = shapes_of(plan, ("income", "age"))
    assert shapes.names == ("income", "age")
    own = shapes.covariances["this plan"]
    assert np.sqrt(np.diag(own)) == pytest.approx(plan.noise_std[[1, 0]])
    equal = np.sqrt(np.diag(shapes.covariances["isotropic Gaussian noise"]))
    assert equal[0] == pytest.approx(equal[1])
    ball = es.plan(
        "mean",
        es.Box({"age": (0, 110), "income": (0, 250_000), "sleep": (0, 16)}, shape="ball"),
        n=300,
        noise="gaussian",
        **SPEND,
    )
    assert equal[0] == pytest.approx(ball.noise_std[0])
    slanted = shapes_of(es.plan("mean", NORMAL, n=300, noise="gaussian", **SPEND)).covariances["this plan"]
    assert slanted[0, 1] > 0
    for wrong in (("age",), ("age", "age"), ("age", "nothing")):
        with pytest.raises(es.UsageError):
            plan.plot(columns=wrong)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", PLANS)
def test_plans_are_legible(name):
    check_legible(PLANS[name]().plot())


def test_odd_names_and_hopeless_plans_are_drawn(tmp_path):
    names = {"$a$" * 60: (0, 1e-9), "收" * 100: (-1e9, 1e12)}
    check_legible(es.plan("mean", es.Box(names), n=100, **SPEND).plot(tmp_path / "plan.svg"))
    unknown = es.plan("mean", es.Ball(1.0), d=1, neighbors="add_remove", **SPEND)
    assert any("pass n=" in text for text, _ in check_legible(unknown.plot()))
