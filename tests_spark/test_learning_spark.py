"""Learning on a frame: every round is a sum in the cluster, and what is learned is what a local run learns."""

import numpy as np
import pandas as pd
import pytest
from conftest import part_sizes

import ellipsum as es
from ellipsum.releases.learning_record import METHODS

BUDGET = {"epsilon": 2, "delta": 1e-6}
ROWS = 1500


def fixed():
    return np.random.default_rng(5)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    columns = {name: rng.normal(center, std, ROWS) for name, center, std in (("a", 3, 1), ("b", -20, 5), ("c", 0, 0.1))}
    return pd.DataFrame({**columns, "who": rng.integers(0, 900, ROWS)})


@pytest.fixture(scope="module")
def frame(spark, data):
    made = spark.createDataFrame(data).repartition(2).cache()
    yield made
    made.unpersist()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_what_it_learns_locally(frame, data, method):
    how = {**BUDGET, "columns": ["a", "b", "c"]}
    unknown = es.Unknown(100, method=method)
    here, there = (es.learn(source, unknown, rng=fixed(), **how) for source in (data, frame))
    assert there.to_json() == here.to_json()


def test_means_of_unknown_rows(frame, data, monkeypatch):
    """Nothing but merged parts reaches the driver, round by round."""
    sizes = part_sizes(monkeypatch, type(frame))
    how = {**BUDGET, "neighbors": "add_remove", "columns": ["a", "b", "c"]}
    here, there = (es.mean(source, es.Unknown(100), rng=fixed(), **how) for source in (data, frame))
    assert there.to_json() == here.to_json()
    assert len(sizes) > 5
    assert max(sizes) < 1 << 22  # the counts of one pass, however many rows there are


def test_pure_rounds(frame, data):
    how = {"epsilon": 1, "delta": 0, "columns": ["a"]}
    here, there = (es.mean(source, es.Unknown(100), rng=fixed(), **how) for source in (data, frame))
    assert there.to_json() == here.to_json()
    assert there.privacy.delta(1) == 0


def test_unknown_rows_of_people(frame, data):
    how = {**BUDGET, "privacy_id": "who"}
    here, there = (es.mean(source, es.Unknown(100), rng=fixed(), **how) for source in (data, frame))
    assert there.to_json() == here.to_json()
    assert there.plan.n == data["who"].nunique()
