"""Unknown names: an error names the nearest one, or what an earlier name has become."""

import numpy as np
import pytest

import ellipsum as es
from ellipsum import estimators

DATA, BOX = {"age": np.arange(100.0)}, {"age": (0, 120)}
SPEND = {"epsilon": 1, "delta": 1e-6}
RENAMED = {
    "rows": "bounds",
    "neighbours": "neighbors",
    "weights": "error_weights",
    "check": "count_clipped",
    "key": "request_id",
    "approve": "es.prepare",
    "header": "es.csv",
    **dict.fromkeys(["dataset", "analyst"], "es.Ledger"),
    **dict.fromkeys(["per_person", "max_rows"], "es.People"),
    **dict.fromkeys(["keys", "max_groups", "max_per_person", "expected"], "es.Groups"),
    **dict.fromkeys(["shape", "clip", "clip_probability"], "es.Normal"),
    **dict.fromkeys(["method", "steps"], "es.Unknown"),
    **dict.fromkeys(["mu", "rho"], "es.Budget"),
}


def prepared(**words):
    with es.prepare("mean", DATA, BOX, **words) as release:
        return release


@pytest.mark.parametrize("name", RENAMED)
def test_an_earlier_name_of_an_argument_says_its_new_one(name):
    calls = [lambda **words: es.mean(DATA, BOX, **words)]
    calls += [prepared] if name != "method" else []
    for call in calls:
        with pytest.raises(es.UsageError, match=rf"no argument '{name}'\. Use .*{RENAMED[name]}"):
            call(**SPEND, **{name: 1})


@pytest.mark.parametrize(
    ("call", "name", "hint"),
    [
        (lambda **words: es.Box(BOX, **words), "shap", "Did you mean shape"),
        (lambda **words: es.Ball(1, **words), "centre", "Use center"),
        (lambda **words: es.Normal(0, std=1, **words), "centre_error", "Use center_error"),
        (lambda **words: es.People("id", **words), "max_row", "Did you mean max_rows"),
        (lambda **words: es.Groups("city", **words), "max_groups", "Use max_per_person"),
        (es.Budget, "eps", "Did you mean epsilon"),
        (lambda **words: es.csv("x.csv", **words), "headers", "Did you mean header"),
        (lambda **words: es.sql("SELECT 1", "duckdb://", **words), "parameter", "Did you mean parameters"),
        (estimators.PrivateMean, "rows", "PrivateMean has no argument 'rows'. Use bounds"),
        (lambda **words: es.describe(DATA, BOX, **words), "cov", "Did you mean covariance"),
        (lambda **words: es.replan(es.plan("mean", BOX, n=9, **SPEND), **words), "neighbours", "Use neighbors"),
        (lambda **words: es.mean(DATA, BOX, **words), "xyzzy", "It takes data, bounds"),
    ],
)
def test_an_unknown_argument_has_a_hint(call, name, hint):
    with pytest.raises(es.UsageError, match=hint):
        call(**{name: 1})


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ({"missing": "column"}, "'skip'"),
        ({"missing": "row"}, "'drop_row'"),
        ({"missing": "center"}, "'none'"),
        ({"noise": "norm"}, "'knorm'"),
        ({"noise": "gausian"}, "'gaussian'"),
        ({"neighbors": "add-remove"}, "'add_remove'"),
    ],
)
def test_a_value_has_a_hint(words, hint):
    with pytest.raises(es.UsageError, match=f"Did you mean {hint}"):
        es.mean(DATA, BOX, **SPEND, **words)


def test_an_earlier_name_of_an_attribute_says_its_new_one():
    release = es.mean(DATA, BOX, **SPEND)
    for owner, name, today in (
        (release, "error_std", "standard_error"),
        (release, "hidden", "clipping_bias"),
        (release.plan, "column_errors", "expected_error"),
        (es, "NoCentre", "NoCenter"),
    ):
        with pytest.raises(AttributeError, match=f"Use {today}"):
            getattr(owner, name)
    assert not hasattr(release, "nonsense")


def test_a_plan_is_changed_by_the_arguments_of_the_call():
    plan = es.plan("mean", BOX, n=100, **SPEND)
    assert es.replan(plan, epsilon=2).stated == {"epsilon": 2, "delta": 1e-6}
    assert es.replan(plan, budget=es.Budget(mu=1)).stated == {"mu": 1}
    assert es.replan(plan, privacy_id="id").people == es.People("id")
    assert es.replan(plan, by=es.Groups("city", keys=["a", "b"])).groups == 2


def test_numbers_for_each_column_are_given_by_name():
    bounds = {"age": (0, 120), "income": (0, 1000)}
    plan = es.plan("mean", bounds, n=100, error_weights={"income": 1, "age": 5}, **SPEND)
    assert plan == es.plan("mean", bounds, n=100, error_weights=[5, 1], **SPEND)
    plan = es.plan("mean", bounds, n=100, error={"income": 30, "age": 5}, delta=1e-6)
    assert plan == es.plan("mean", bounds, n=100, error=[5, 30], delta=1e-6)
    with pytest.raises(es.UsageError, match="one number for each column: 'age', 'income'"):
        es.plan("mean", bounds, n=100, error={"age": 5}, delta=1e-6)
    with pytest.raises(es.UsageError, match="have no names"):
        es.plan("mean", es.Box(0, [1, 2]), n=100, error_weights={"age": 5}, **SPEND)
