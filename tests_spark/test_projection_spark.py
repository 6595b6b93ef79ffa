"""Projections on a frame: workers make exact integers of every row, once each; noise and the file are made here."""

import sys

import numpy as np
import pytest
from conftest import ROWS, SMALL_BATCHES, failing, kept_frames, source
from pyspark.cloudpickle import register_pickle_by_value

import ellipsum as es
from ellipsum.projection.forecast import ProjectionOptions
from ellipsum.projection.matrix import draw_matrix
from ellipsum.projection.products import Products
from ellipsum.request.people import People
from ellipsum.session import Session
from ellipsum.sources import Selection, group_by_person

register_pickle_by_value(sys.modules[failing.__module__])  # executors cannot import the tests

KNOWN = es.Box({"double": (-2, 2), "short": (0, 1000)})
COLUMNS = ["double", "short"]
K = 3


def products():
    return Products(
        ProjectionOptions(KNOWN, es.Budget(epsilon=1, delta=1e-6), metric="scaled").region(2, None).row_map,
        draw_matrix(bytes(32), 2, K),
    )


def sorted_integers(parts):
    rows = np.concatenate([part.high * 2**48 + part.low for part in parts])
    return rows[np.lexsort(rows.T)]


def local_integers(path, people=None):
    with Session.open(path, Selection(COLUMNS), people) as session:
        return sorted_integers([products()(session.source.every())])


def test_workers_make_the_integers_of_a_local_pass(spark, mixed):
    found = list(source(spark.read.parquet(mixed).repartition(4), COLUMNS).each(products(), 97))
    assert max(len(part.high) for part in found) == 97
    assert np.array_equal(sorted_integers(found), local_integers(mixed))
    assert kept_frames(spark) == 0


def test_tasks_that_fail_halfway_count_once(spark, mixed, settings):
    settings(SMALL_BATCHES)
    frame = spark.read.parquet(mixed).select(*COLUMNS).repartition(2)
    found = source(frame.mapInArrow(failing(1), "double double, short short")).each(products(), 1000)
    assert np.array_equal(sorted_integers(found), local_integers(mixed))


def test_people_are_projected_where_they_meet(spark, mixed):
    people = People("flag", "sum", 5)
    grouped = group_by_person(source(spark.read.parquet(mixed).repartition(4), COLUMNS, key="flag"), people)
    found = sorted_integers(grouped.each(products(), 97))
    grouped.close()
    assert np.array_equal(found, local_integers(mixed, people))


def test_a_projection_of_a_frame(spark, mixed, tmp_path, monkeypatch):
    """Numbers a row and nothing else reach the driver, and the file holds them with noise, in an order of its own."""
    frame = spark.read.parquet(mixed).repartition(5)
    kind, sizes = type(frame), []
    through = kind.toLocalIterator

    def recorded(some, *more):
        for row in through(some, *more):
            sizes.append(len(row.result))
            yield row

    def refused(*_):
        raise AssertionError("the frame was collected")

    for name in ("collect", "toArrow", "toPandas", "__arrow_c_stream__"):
        monkeypatch.setattr(kind, name, refused)
    monkeypatch.setattr(kind, "toLocalIterator", recorded)
    how = {"metric": "scaled", "epsilon": 1e12, "delta": 1e-6, "matrix": np.eye(2)}
    there = es.project(frame, 2, KNOWN, output=tmp_path / "p.parquet", **how)
    here = es.project(mixed, 2, KNOWN, **how)
    assert sum(sizes) == 8 * 2 * ROWS
    assert there.n == here.n == ROWS
    assert not there.ordered
    assert "does not depend on the order of the data" in " ".join(repr(there).split())
    gap = np.abs(np.sort(there.value, axis=0) - np.sort(here.value, axis=0)).max()
    assert gap < 12 * here.noise_std < 1e-3
    assert kept_frames(spark) == 0


def test_nothing_is_written_where_it_fails_or_is_refused(spark, mixed, tmp_path):
    target = tmp_path / "p.parquet"
    frame = spark.read.parquet(mixed)
    with pytest.raises(es.UsageError, match="Missing argument output"):
        es.project(frame, 2, KNOWN, epsilon=1, delta=1e-6)
    failing_frame = frame.selectExpr("cast(raise_error(name) as double) as double", "short")
    with pytest.warns(es.ProjectionWarning), pytest.raises(es.DataError) as caught:
        es.project(failing_frame, 2, KNOWN, epsilon=1, delta=1e-6, output=target)
    assert "Smith" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    assert kept_frames(spark) == 0
