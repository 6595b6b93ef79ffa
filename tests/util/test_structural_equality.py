"""Equality by contents: what holds arrays can be compared, put into sets, and told apart."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import ellipsum as es
from ellipsum.friendly.plan import friendly_plan
from ellipsum.regions.ellipsoid import Ellipsoid
from ellipsum.releases.decode import Noise
from ellipsum.releases.release import Counts
from ellipsum.row_maps.auxiliary_counts import AuxiliaryCounts
from ellipsum.util.structural_equality import ValueEquality, contents

SPEND = {"epsilon": 1.0, "delta": 1e-6}
X = np.random.default_rng(0).normal(5.0, 1.0, (500, 2))


@dataclass(frozen=True)
class Pair(ValueEquality):
    left: object
    right: object = None


@dataclass(frozen=True)
class Other(ValueEquality):
    left: object
    right: object = None


class Narrower(Pair):
    pass


def test_contents_decide():
    first, second = Pair(np.array([1.0, 2.0]), {"a": [1]}), Pair(np.array([1.0, 2.0]), {"a": (1,)})
    assert first == second
    assert hash(first) == hash(second)
    assert first != Pair(np.array([1.0, 3.0]), {"a": [1]})
    assert first != Pair(np.array([1.0, 2.0]), {"a": [2]})
    assert first != Pair(np.array([[1.0, 2.0]]), {"a": [1]})
    assert first != (np.array([1.0, 2.0]), {"a": [1]})
    assert len({first, second}) == 1


def test_types_are_told_apart():
    assert Pair(1) != Other(1)
    assert Pair(1) != Narrower(1)
    assert Pair(Pair(1)) != Pair(Other(1))
    assert Narrower(1) == Narrower(1)


def test_equal_numbers_have_equal_hashes():
    assert Pair(np.array([0.0, 1.0])) == Pair(np.array([-0.0, 1.0])) == Pair([0, 1])
    assert len({Pair(np.array([0.0, 1.0])), Pair(np.array([-0.0, 1.0])), Pair([0, 1])}) == 1
    assert contents(np.array(3.0)) == 3.0
    assert contents(np.ones((2, 2))) == ((1.0, 1.0), (1.0, 1.0))


ELLIPSOID = Ellipsoid(np.zeros(2), np.ones(2), np.eye(2))
COUNTS = Counts(np.ones(2), np.ones(2), np.ones(3))
MADE = {
    "ball": lambda at: es.Ball(1.0, [at, 2.0]),
    "box": lambda at: es.Box([0.0, 1.0], [at + 5, 2.0]),
    "normal": lambda at: es.Normal([at, 1.0], cov=[[2.0, 1.0], [1.0, 3.0]]),
    "unknown": lambda at: es.Unknown(at + 9),
    "ellipsoid": lambda at: Ellipsoid(np.array([at, 1.0]), np.ones(2), np.eye(2)),
    "noise": lambda at: Noise(ELLIPSOID, 1.0, np.array([at, 1.0])),
    "counts": lambda at: replace(COUNTS, rows=np.array([at, 1.0])),
    "auxiliary": lambda at: AuxiliaryCounts("fill", np.array([at, 1.0])),
    "plan": lambda at: es.plan("sum", es.Box([0.0, 1.0], [at + 5, 2.0]), n=9, **SPEND),
    "learning plan": lambda at: es.plan("sum", es.Unknown(at + 9), n=500, d=2, missing=np.array([0.0, 1.0]), **SPEND),
    "friendly plan": lambda at: friendly_plan(500, 2, at + 3.0, budget=es.Budget(**SPEND)),
}


@pytest.mark.parametrize("kind", MADE)
def test_everything_public_compares_by_contents(kind):
    make = MADE[kind]
    assert make(0.5) == make(0.5)
    assert hash(make(0.5)) == hash(make(0.5))
    assert make(0.5) != make(0.75)
    assert hash(make(0.5)) != hash(make(0.75))


def test_rows_of_other_kinds_differ():
    assert es.Ball(1.0) != es.Unknown(1.0)
    assert es.Box(0, 1) != es.Box([0], [1])
    assert es.Box({"a": (0, 1)}) != es.Box({"b": (0, 1)})


RESULTS = {
    "release": (lambda: es.mean(X, es.Box(0, 9), **SPEND), es.from_json),
    "learned": (lambda: es.learn(X, es.Unknown(100.0), **SPEND), es.Learned.from_json),
    "friendly": (lambda: es.friendly_mean(X, 8.0, epsilon=10.0, delta=1e-6), es.from_json),
    "no center": (lambda: es.friendly_mean(X, 0.01, epsilon=10.0, delta=1e-6), es.NoCenter.from_json),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_results_of_one_json_are_equal_and_of_other_noise_differ(kind):
    make, read = RESULTS[kind]
    first, second = make(), make()
    again = read(first.to_json())
    assert first == again == read(first.to_json())
    assert hash(first) == hash(again)
    assert first != second
    assert len({first, again, second}) == 2


@pytest.mark.filterwarnings("ignore::ellipsum.ProjectionWarning")
def test_projections_compare_by_their_values_too(tmp_path):
    first, second = (es.project(X, 2, es.Box(0, 9), rng=np.random.default_rng(seed), **SPEND) for seed in (1, 2))
    first.save(tmp_path / "p.parquet")
    loaded = es.load(tmp_path / "p.parquet")
    assert first == loaded
    assert hash(first) == hash(loaded)
    assert first != second
    assert first != replace(first, _values=first.value + 1)
    assert first != "a projection"
