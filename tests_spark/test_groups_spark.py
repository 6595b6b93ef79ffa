"""Groups of a Spark frame: added up in the cluster, the same bits as here."""

import numpy as np
import pyarrow as pa
import pytest

import ellipsum as es

BUDGET = {"epsilon": 1, "delta": 1e-6}
ROWS = es.Box({"a": (0, 1), "b": (-5, 5)})


def table_of(n=5000):
    rng = np.random.default_rng(1)
    cities = rng.choice(["Oslo", "Tromsø", "日本", None], n)
    return pa.table(
        {"a": rng.random(n), "b": rng.normal(0, 3, n), "city": pa.array(cities), "year": rng.integers(2020, 2022, n)}
    )


@pytest.mark.parametrize("keys", [None, {"city": ["Oslo", None], "year": [2020, 2021]}])
def test_groups_are_the_local_ones(spark, keys):
    table = table_of()
    frame = spark.createDataFrame(table.to_pandas()).repartition(5)
    words = {"by": ["city", "year"], "keys": keys, "columns": ["a", "b"], "noise": "gaussian", **BUDGET}
    here = es.sum(table, ROWS, rng=np.random.default_rng(2), **words)
    there = es.sum(frame, ROWS, rng=np.random.default_rng(2), **words)
    assert there.keys.tolist() == here.keys.tolist()
    assert (there.noisy == here.noisy).all()


def test_people_in_groups_are_refused_in_words(spark):
    frame = spark.createDataFrame(table_of(50).to_pandas())
    with pytest.raises(es.UsageError, match="privacy_id"):
        es.sum(frame, ROWS, by="city", columns=["a", "b"], privacy_id="year", **BUDGET)
