"""A target error in place of a budget: met, with no epsilon and no row to spare."""

import math

import numpy as np
import pytest

import ellipsum as es

BOX = es.Box({"age": (0, 120), "income": (0, 5000)})


def error_of(plan):
    return math.sqrt(plan.expected_squared_error)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("rows", [BOX, es.Normal({"a": (3, 1), "b": (0, 2)}), es.Ball(2.0, center=[0.0, 0.0])])
@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_the_least_epsilon_meets_the_error(rows, delta, relation):
    terms = {"n": 5000, "delta": delta, "neighbors": relation}
    wanted = 3 * error_of(es.plan("mean", rows, epsilon=1.0, **terms))
    plan = es.plan("mean", rows, error=wanted, **terms)
    assert error_of(plan) <= wanted
    assert error_of(es.plan("mean", rows, epsilon=plan.stated["epsilon"] * 0.999, **terms)) > wanted * (1 - 1e-3)
    assert plan.stated["epsilon"] < 1
    assert plan.release(np.ones((5000, 2))).value.shape == (2,)


def test_one_error_for_each_column():
    plan = es.plan("mean", BOX, n=5000, delta=1e-6, error=[1.0, 20.0])
    assert (plan.expected_error <= [1.0, 20.0]).all()
    assert (plan.expected_error > [0.99, 19.8]).any()


def test_the_fewest_rows():
    terms = {"epsilon": 1.0, "delta": 1e-6}
    plan = es.plan("mean", BOX, n="auto", error=5.0, **terms)
    assert error_of(plan) <= 5.0 < error_of(es.plan("mean", BOX, n=plan.n - 1, **terms))
    rough = es.plan("sum", es.Unknown(100.0), n="auto", d=3, error=0.05, epsilon=1.0, delta=1e-6)
    assert rough.relative_error <= 0.05


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"n": 10, "error": 1.0}, "delta"),
        ({"n": 10, "error": 1.0, "epsilon": 1.0, "delta": 1e-6}, "error= replaces epsilon="),
        ({"n": 10, "error": -1.0, "delta": 1e-6}, "above 0"),
        ({"n": 10, "error": [1.0, 2.0, 3.0], "delta": 1e-6}, "one per column"),
        ({"n": 10, "error": "small", "delta": 1e-6}, "error"),
        ({"n": "auto", "epsilon": 1.0, "delta": 1e-6}, "needs error"),
        ({"n": "many", "error": 1.0, "delta": 1e-6}, "n must be"),
        ({"error": 1.0, "delta": 1e-6, "neighbors": "add_remove"}, "n is missing"),
    ],
)
def test_wrong_words(words, said):
    with pytest.raises(es.UsageError, match=said):
        es.plan("mean", BOX, **words)


def test_an_error_that_nothing_reaches():
    rows = es.Normal({"a": (0, 1)}, clip=0.5)
    with pytest.raises(es.UsageError, match="No budget reaches"):
        es.plan("sum", rows, n=10, error=1e-3, delta=1e-6)
