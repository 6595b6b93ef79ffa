"""Every public function answers unusual arguments with a result or with an error of the library."""

import math
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from counting import count_cases

import ellipsum as es


def matrix():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.matrix([[1.0, 2.0]])


X = np.random.default_rng(0).normal(5.0, 1.0, (400, 2))
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
ODD = {
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "huge": 1e308,
    "tiny": 5e-324,
    "small": 1e-200,
    "zero": 0,
    "-0.0": -0.0,
    "negative": -3,
    "half": 0.5,
    "2^70": 2**70,
    "10^400": 10**400,
    "10^12": 10**12,
    "true": True,
    "text": "word",
    "digits": "1",
    "empty": "",
    "nul": "a\x00b",
    "bytes": b"1",
    "decimal": Decimal("0.5"),
    "fraction": Fraction(1, 3),
    "complex": 1 + 2j,
    "array": np.array([1.0, 2.0]),
    "words": np.array(["replace", "replace"]),
    "0-d": np.array(1.0),
    "matrix": np.ones((2, 2)),
    "objects": np.array([None, {}], dtype=object),
    "np.matrix": matrix(),
    "float32": np.float32(0.3),
    "int8": np.int8(3),
    "np.bool": np.bool_(True),
    "list": [1, 2],
    "names": ["a", "b"],
    "mixed": [1, "a"],
    "nested": [[1], [2, 3]],
    "empty list": [],
    "huge list": [10**400, 1],
    "nan list": [math.nan, 1.0],
    "pair": (1.0, 1e300),
    "dict": {"a": (0, 1), "b": (0, 2)},
    "odd dict": {"a": 3},
    "set": {1, 2},
    "none": None,
    "object": object(),
    "type": int,
    "function": abs,
    "budget": es.Budget(mu=1.0),
    "rows": es.Ball(1.0),
    "date": np.datetime64("2020-01-01"),
}
RELEASE = es.mean(X, es.Box(0, 10), noise="gaussian", **BUDGET)
BOXED = es.mean(X, es.Box(0, 10), **{**BUDGET, "delta": 0})
DESCRIPTION = es.describe(X, es.Box(0, 10), **BUDGET)
QUANTILES = es.quantiles(X, es.Box(0, 10), bins=16, **BUDGET)
HISTOGRAM = es.histogram(X, bins={0: [0, 5, 9]}, **BUDGET)
PROJECTION = es.project(X, 2, es.Ball(20), epsilon=900.0, delta=1e-6)


def prepare(**words):
    with es.prepare(**words) as prepared:
        return prepared.release()


def block_mean(block):
    return block.mean(axis=0)


AGGREGATE = {
    "blocks": 60,
    "radius": 5.0,
    "dimension": 2,
    "epsilon": 50.0,
    "delta": 1e-6,
    "time_limit": 5.0,
    "workers": 1,
}
READ = {"neighbors": "replace", "columns": None, "n": None, "rng": None, "threads": None, "progress": None,
        "privacy_id": None}  # fmt: skip
CHOSEN = {"by": None, "missing": None, "noise": "auto", "error_weights": None, "count_clipped": True}
PEOPLE_ROWS = np.c_[np.arange(400) // 2, X]
LAW = es.WeightedChiSquare([1.0, 2.0])
CALLS = {
    "plan": (es.plan, {"statistic": "sum", "bounds": es.Box(0, 1), "n": 9, "d": 2, **BUDGET, "budget": None,
                       "neighbors": "replace", "columns": None, **CHOSEN}),
    "plan normal": (es.plan, {"statistic": "sum", "bounds": es.Normal(0, 1), "n": 9, "d": 2, **BUDGET,
                              "neighbors": "add_remove", **CHOSEN}),
    "plan unknown": (es.plan, {"statistic": "mean", "bounds": es.Unknown(9), "n": 9, "d": 2, **BUDGET,
                               "neighbors": "replace", **CHOSEN}),
    "learn by coinpress": (lambda **options: es.learn(X, es.Unknown(9, method="coinpress", **options), **BUDGET),
                           {"steps": 2, "std": 1.0}),
    "People": (es.People, {"privacy_id": 0, "per_person": "rows", "max_rows": 2}),
    "Groups": (es.Groups, {"by": ["a", "b"], "keys": [("x", 1)], "max_per_person": 1, "expected": 3}),
    "prepare": (prepare, {"statistic": "mean", "data": X, "bounds": es.Box(0, 9), **BUDGET, **READ, **CHOSEN}),
    "sum": (es.sum, {"data": X, "bounds": es.Box(0, 9), **BUDGET, **READ}),
    "sum normal": (es.sum, {"data": X, "bounds": es.Normal(5, 1), **BUDGET, "missing": None, "count_clipped": True}),
    "mean ball": (es.mean, {"data": X, "bounds": es.Ball(9), **BUDGET, "missing": None, "count_clipped": True}),
    "mean of people's rows": (es.mean, {"data": PEOPLE_ROWS, "bounds": es.Box(0, 9), **BUDGET,
                                        "privacy_id": es.People(0, "rows", 2), "missing": None}),
    "suggest_max_rows": (es.suggest_max_rows, {"data": PEOPLE_ROWS, "privacy_id": 0, **BUDGET,
                                               "neighbors": "replace", "columns": None, "rng": None}),
    "sum of people": (es.sum, {"data": PEOPLE_ROWS, "bounds": es.Box(0, 9), **BUDGET,
                               "privacy_id": es.People(0, "sum", 2)}),
    "mean": (es.mean, {"data": X, "bounds": es.Box(0, 9), **BUDGET, **READ, "neighbors": "add_remove", **CHOSEN}),
    "describe": (es.describe, {"data": X, "bounds": es.Box(0, 9), **BUDGET, **READ, **CHOSEN}),
    "count": (es.count, {"data": X, **BUDGET, **READ, **CHOSEN, "neighbors": "add_remove"}),
    "histogram": (es.histogram, {"data": X, "bins": {0: [0, 5, 9]}, "categories": None, **BUDGET, **READ, **CHOSEN}),
    "quantiles": (es.quantiles, {"data": X, "bounds": es.Box(0, 9), "q": 0.5, "bins": 16, "method": "cdf", **BUDGET,
                                 **READ, **CHOSEN}),
    "plan quantiles": (es.plan, {"statistic": "quantiles", "bounds": es.Box(0, 9), "n": 9, "d": 2, "q": 0.5,
                                 "bins": 16, "method": "cdf", **BUDGET}),
    "plan histogram": (es.plan, {"statistic": "histogram", "n": 9, "bins": [0, 1], "categories": None, **BUDGET}),
    "quantile": (QUANTILES.quantile, {"q": 0.3}),
    "cdf": (QUANTILES.cdf, {"x": 0.3}),
    "quantile interval": (QUANTILES.confidence_interval, {"level": 0.9, "q": 0.3}),
    "band": (QUANTILES.band, {"level": 0.9}),
    "histogram interval": (HISTOGRAM.confidence_interval, {"level": 0.9, "of": "share", "target": "population"}),
    "described interval": (DESCRIPTION.confidence_interval, {"level": 0.9, "of": "std"}),
    "mean unknown": (es.mean, {"data": X, "bounds": es.Unknown(9), **BUDGET, "missing": None, "count_clipped": True}),
    "learn": (es.learn, {"data": X, "bounds": es.Unknown(9), **BUDGET, **READ}),
    "friendly_mean": (es.friendly_mean, {"data": X, "radius": 9.0, "epsilon": 9.0, "delta": 1e-6, "gate": None,
                                         "neighbors": "replace", "columns": None, "max_rows": None, "rng": None}),
    "FriendlyGate": (es.FriendlyGate, {"law": "gaussian", "slack": None, "share": None, "target": 0.7, "floor": 0.2}),
    "subsample_and_aggregate": (es.subsample_and_aggregate, {"function": block_mean, "data": X, **AGGREGATE,
                                                             "names": None, "shuffle": True, "max_rows": None}),
    "project": (es.project, {"data": X, "k": 2, "bounds": es.Ball(20), "epsilon": 90.0, "delta": 1e-6,
                             "adversary": None, "calibration": "exact", "metric": "original",
                             "neighbors": "replace", "columns": None, "matrix_seed": None, "matrix": None,
                             "rng": None}),
    "choose_k": (es.choose_k, {"n": 9, "d": 3, "bounds": es.Ball(1), **BUDGET, "distance": None, "adversary": None,
                               "metric": "original"}),
    "projection_forecast": (es.projection_forecast, {"n": 9, "d": 3, "k": 2, "bounds": es.Normal(0, 1), **BUDGET,
                                                     "adversary": None, "calibration": "exact", "metric": "scaled"}),
    "Budget": (es.Budget, {**BUDGET}),
    "Budget mu": (es.Budget, {"mu": 1.0}),
    "Budget rho": (es.Budget, {"rho": 1.0}),
    "Privacy": (es.Privacy, {"mu": 1.0, "slack": 0.0, "neighbors": "replace", "unit": "row"}),
    "compose": (es.compose, {"parts": [es.Privacy(1.0)]}),
    "calibrate": (es.calibrate, {**BUDGET, "method": "analytic"}),
    "WeightedChiSquare": (es.WeightedChiSquare, {"weights": [1.0]}),
    "sf": (LAW.sf, {"x": 1.0}),
    "pdf": (LAW.pdf, {"x": 1.0}),
    "isf": (LAW.isf, {"p": 0.5, "log": False}),
    "conditional_moments": (LAW.conditional_moments, {"x": 1.0}),
    "tail_bound": (es.tail_bound, {"weights": [1.0], "p": 0.1, "kind": "chernoff"}),
    "Ball": (es.Ball, {"radius": 1.0, "center": 0.0, "columns": None}),
    "Box": (es.Box, {"lower": 0.0, "upper": 1.0, "columns": None, "shape": "ball"}),
    "Normal": (es.Normal, {"center": 0.0, "std": 1.0, "center_error": 0.1, "columns": None, "shape": "optimal",
                           "clip": "quantile", "clip_probability": 0.1}),
    "Normal cov": (es.Normal, {"center": 0.0, "cov": np.eye(2), "center_error": 0.1}),
    "Unknown": (es.Unknown, {"magnitude": 1.0, "columns": None, "method": "coinpress", "steps": 2}),
    "split": (lambda weight: es.Budget(mu=1.0).split(weight, 1.0), {"weight": 1.0}),
    "Budget.delta": (es.Budget(mu=1.0).delta, {"epsilon": 1.0}),
    "Privacy.epsilon": (es.Privacy(1.0).epsilon, {"delta": 0.1}),
    "Privacy.delta": (es.Privacy(1.0).delta, {"epsilon": 0.1}),
    "confidence_interval": (RELEASE.confidence_interval, {"level": 0.9}),
    "confidence_region": (RELEASE.confidence_region, {"level": 0.9}),
    "contains": (RELEASE.confidence_region().contains, {"point": [1.0, 2.0]}),
    "contains in a box": (BOXED.confidence_region().contains, {"point": [1.0, 2.0]}),
    "denoise": (RELEASE.denoise, {"method": "soft_threshold", "threshold": 1.0}),
    "clamp": (RELEASE.denoise, {"method": "clamp", "lower": 0.0, "upper": 1.0}),
    "rows": (PROJECTION.rows, {"numbers": [0]}),
    "squared_distances": (PROJECTION.squared_distances, {"pairs": [0, 1]}),
    "inner_products": (PROJECTION.inner_products, {"pairs": [0, 1], "about": "origin"}),
    "squared_norms": (PROJECTION.squared_norms, {"rows": [0], "about": "center"}),
    "estimated interval": (PROJECTION.squared_norms([0]).confidence_interval, {"level": 0.9}),
    "Plan.from_json": (es.Plan.from_json, {"text": "{}"}),
    "Release.from_json": (es.from_json, {"text": "{}"}),
    "Learned.from_json": (es.Learned.from_json, {"text": "{}"}),
    "Privacy.from_dict": (es.Privacy.from_dict, {"saved": {}}),
}  # fmt: skip
QUICK = {"subsample_and_aggregate": {"function", "blocks", "dimension"}}  # the others start processes for every answer
CASES = [
    pytest.param(
        name,
        argument,
        id=f"{name}: {argument}",
        marks=[] if argument in QUICK.get(name, given) else pytest.mark.slow,
    )
    for name, (_, given) in CALLS.items()
    for argument in given
]


@pytest.mark.one_in(10)
@pytest.mark.parametrize(("name", "argument"), CASES)
def test_odd_arguments_end_in_an_answer_or_in_an_error_of_the_library(name, argument, request):
    call, given = CALLS[name]
    count_cases(request, "odd arguments", len(ODD))
    for odd, value in ODD.items():
        said = outcome(f"{name}({argument}={odd})", call, {**given, argument: value})
        assert "\n" not in said, odd
        assert len(said) < 500, odd


def outcome(words, call, given):
    """The text of the library's error, or an empty text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call(**given)
        except es.EllipsumError as error:
            return str(error)
        except BaseException as error:
            raise AssertionError(f"{words} raised {type(error).__name__}") from error
    return ""
