"""Spark frames give the integers of a local pass, for any partitions, and follow the rules of every table."""

import os
import signal
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from conftest import NUMBERS, ROWS, source

import ellipsum as es
from ellipsum.sources.engine import EngineSource
from ellipsum.sources.spark.source import MERGERS, SHORT_BYTES

BOX = es.Box([-2, -2, -(2**40), 0, 0, 0], [2, 2, 2**40, 1000, 1, 100])
CORRELATED = es.Normal([0, 0, 0, 500, 0.5, 50], cov=np.diag([1.0, 1, 2.0**78, 9e4, 0.25, 900]) + 0.1)
BUDGET = {"epsilon": 1, "delta": 1e-6}


def fixed():
    return np.random.default_rng(11)


@pytest.mark.parametrize(
    ("statistic", "neighbors", "rows", "partitions"),
    [
        *(("sum", "replace", BOX, partitions) for partitions in (1, 7, 200)),
        *(("mean", "add_remove", CORRELATED, partitions) for partitions in (2, 50)),
        ("describe", "replace", BOX, 7),
    ],
)
def test_releases_equal_local_ones(spark, mixed, statistic, neighbors, rows, partitions):
    publish = getattr(es, statistic)
    how = {**BUDGET, "neighbors": neighbors, "columns": NUMBERS, "n": ROWS}
    local = publish(mixed, rows, rng=fixed(), **how)
    frame = spark.read.parquet(mixed).repartition(partitions)
    remote = publish(frame, rows, rng=fixed(), **how)
    assert np.array_equal(remote.value, local.value)
    assert remote.columns == local.columns
    assert remote.to_json() == local.to_json()


def test_a_saved_plan_runs_on_a_frame(spark, mixed):
    plan = es.plan("sum", es.Box({"long": (0, 2**40), "flag": (0, 1)}), n=ROWS, **BUDGET)
    again = es.Plan.from_json(plan.to_json())
    assert np.array_equal(
        again.release(spark.read.parquet(mixed), rng=fixed()).value, plan.release(mixed, rng=fixed()).value
    )
    with pytest.raises(es.UsageError, match=f"{ROWS - 1}"):
        plan.release(spark.read.parquet(mixed).limit(ROWS - 1))


def test_empty_frames_and_empty_partitions(spark, mixed):
    frame = spark.read.parquet(mixed).select("long").where("long = 0.5")
    release = es.mean(frame, es.Ball(10), neighbors="add_remove", n=5, **BUDGET)
    assert np.isfinite(release.value).all()
    with pytest.raises(es.UsageError, match="no rows"):
        es.mean(frame, es.Ball(10), **BUDGET)
    few = spark.range(3).repartition(40)
    assert source(few).total(es.plan("sum", es.Ball(5), n=3, d=1, **BUDGET).row_map).rows == 3


def test_columns_are_chosen_as_everywhere(spark, mixed):
    frame = spark.read.parquet(mixed)
    found = source(frame, columns=["price", "double"])
    assert isinstance(found, EngineSource)
    assert found.columns == ("price", "double")
    assert found.count() == ROWS
    with pytest.raises(es.UsageError, match="'name' of data is of type string, not a number"):
        es.sum(frame, es.Ball(1), **BUDGET)
    with pytest.raises(es.UsageError, match="'tags' of data is of type array<string>"):
        es.sum(frame, es.Ball(1), columns=["tags"], **BUDGET)
    with pytest.raises(es.UsageError, match="data has no column 'nonsense'"):
        es.sum(frame, es.Ball(1), columns=["nonsense"], **BUDGET)
    with pytest.raises(es.UsageError, match="Spark frame"):
        es.sum([frame, frame], es.Ball(1), columns=["double"], **BUDGET)


def test_arrays_of_a_declared_length_are_rows(spark):
    """An array of another length, and a null, is a row at the center, as in every table."""
    lists = [[1.0, 2.0, 3.0], None, [4.0], [0.5, None, float("nan")]]
    frame = spark.createDataFrame([(row,) for row in lists], "v array<float>").repartition(2)
    local = pa.table({"v": pa.array(lists, pa.list_(pa.float32()))})
    known = {"columns": ["v[3]"], **BUDGET}
    here, there = (es.sum(data, es.Ball(9), rng=fixed(), **known) for data in (local, frame))
    assert there.to_json() == here.to_json()
    assert there.columns == ("v[0]", "v[1]", "v[2]")
    with pytest.raises(es.UsageError, match="lists of any length"):
        es.sum(frame, es.Ball(9), **BUDGET)


def test_odd_names_are_found_by_place(spark):
    frame = spark.createDataFrame([(1.0, 2.0, 3.0), (4.0, 5.0, 6.0)], ["a.b", "`A.B`", "A"])
    twin = frame.select("*", frame["A"].alias("a"))
    rows, _ = source(twin, columns=["a", "`A.B`", "a.b"]).sample(2, bytes(32))
    assert sorted(map(tuple, rows)) == [(3.0, 2.0, 1.0), (6.0, 5.0, 4.0)]
    repeated = frame.select("A", "A")
    with pytest.raises(es.UsageError, match="2 columns called 'A'"):
        source(repeated, columns=["A"])


@pytest.mark.parametrize(("columns", "most"), [(1, 20), (500, MERGERS)])
def test_the_driver_receives_short_parts_or_a_few_rows_and_never_the_frame(spark, monkeypatch, columns, most):
    kind, found = type(spark.range(1)), []
    collect = kind.collect

    def recorded(frame):
        rows = collect(frame)
        found.append([len(row.part) for row in rows])
        return rows

    def refused(*_):
        raise AssertionError("the frame was collected")

    monkeypatch.setattr(kind, "collect", recorded)
    for name in ("toArrow", "toPandas", "__arrow_c_stream__", "toLocalIterator"):
        monkeypatch.setattr(kind, name, refused)
    frame = spark.range(600).repartition(20).selectExpr(*[f"id + {j} as c{j}" for j in range(columns)])
    es.sum(frame, es.Box(0, 600), count_clipped=False, **BUDGET)
    assert [len(sizes) for sizes in found] == [most]
    assert set(found[0]) == {8 * (2 * columns + 1)}
    assert columns > 1 or found[0][0] <= SHORT_BYTES


def test_progress_rises_to_one(spark, mixed):
    shown = []
    es.sum(spark.read.parquet(mixed).repartition(9), es.Box(0, 1), columns=["flag"], progress=shown.append, **BUDGET)
    assert shown == [step / 100 for step in range(101)]


def test_a_private_number_of_rows_does_not_show(spark):
    for rows, parts in ((10, 1), (11, 7), (100_000, 30)):
        shown = []
        frame = spark.range(rows).repartition(parts)
        es.sum(frame, es.Ball(1), neighbors="add_remove", n=9, progress=shown.append, **BUDGET)
        assert shown == [0.0, 1.0]


def test_an_interrupt_cancels_the_jobs(spark):
    def slow(batches):
        import time

        time.sleep(300)
        yield from batches

    tracker = spark.sparkContext.statusTracker()

    def interrupt():
        while not tracker.getActiveStageIds():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    frame = spark.range(10).mapInArrow(slow, "id long")
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)  # not Spark's, which cancels jobs by itself
    try:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            es.sum(frame, es.Ball(1), neighbors="add_remove", n=9, **BUDGET)
    finally:
        signal.signal(signal.SIGINT, heard)
    for _ in range(300):
        if not tracker.getActiveJobsIds():
            break
        time.sleep(0.1)
    assert not tracker.getActiveJobsIds()


def test_spark_texts_never_pass_and_no_noise_is_drawn(spark, mixed, monkeypatch):
    import ellipsum.session

    def refused(*draws):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(ellipsum.session.Stream, "claim", refused)
    frame = spark.read.parquet(mixed).selectExpr("cast(raise_error(name) as double) as x")
    with pytest.raises(es.DataError) as caught:
        es.sum(frame, es.Ball(1), neighbors="add_remove", n=9, **BUDGET)
    assert "Smith" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_workers_with_another_version_are_refused(spark, mixed, monkeypatch):
    import ellipsum.sources.spark.source

    monkeypatch.setattr(ellipsum.sources.spark.source, "VERSION", "0.0.0")
    with pytest.raises(es.DataError, match="the same ellipsum"):
        es.sum(spark.read.parquet(mixed), es.Box(0, 1), columns=["flag"], neighbors="add_remove", n=9, **BUDGET)


def test_streams_and_series_are_refused(spark, tmp_path):
    stream = spark.readStream.schema("x double").parquet(str(tmp_path))
    with pytest.raises(es.UsageError, match="streaming"):
        source(stream)
    with pytest.raises(es.UsageError, match="Spark"):
        source(spark.range(3)["id"])


def test_a_subset_holds_each_row_at_most_once(spark):
    found = source(spark.range(400).selectExpr("cast(id as double) x").repartition(5))
    rows, count = found.sample(100, bytes(32))
    assert count == 400
    assert rows.shape == (100, 1)
    assert len(np.unique(rows)) == 100
    assert not np.array_equal(np.sort(found.sample(100, bytes([1] * 32))[0][:, 0]), np.sort(rows[:, 0]))
    assert np.array_equal(np.sort(found.sample(400, bytes(32))[0][:, 0]), np.arange(400))


def test_friendly_means_use_a_subset_and_say_so(spark):
    rng = np.random.default_rng(5)
    import pandas as pd

    data = pd.DataFrame(rng.normal(size=(4000, 3)) + 100, columns=list("abc"))
    frame = spark.createDataFrame(data).repartition(6)
    small = {"epsilon": 2, "delta": 1e-6}
    every = es.friendly_mean(frame, 12.0, rng=fixed(), max_rows=4000, **small)
    local = es.friendly_mean(data, 12.0, rng=fixed(), max_rows=4000, **small)
    assert np.array_equal(every.value, local.value)
    some = es.friendly_mean(frame, 12.0, max_rows=1500, **small)
    assert some.plan.n == 1500
    assert "a random subset of 1,500 of 4,000 rows" in repr(some.plan)
    assert np.abs(some.value - 100).max() < 6 * np.max(some.noise_std) + 6 / np.sqrt(1500)
    blocks = es.subsample_and_aggregate(
        lambda rows: rows.mean(axis=0), frame, blocks=200, radius=8.0, max_rows=2000, epsilon=4, delta=1e-6, workers=1
    )
    assert "200 blocks of a random subset of 2,000 of 4,000 rows" in repr(blocks.plan)


def test_friendly_means_of_people(spark):
    rng = np.random.default_rng(5)
    data = pa.table({"a": rng.normal(size=3000) + 50, "who": rng.integers(0, 1200, 3000)})
    frame = spark.createDataFrame(data).repartition(3)
    how = {"privacy_id": "who", "epsilon": 2, "delta": 1e-6}
    here, there = (es.friendly_mean(source, 8.0, rng=fixed(), **how) for source in (data, frame))
    assert there.to_json() == here.to_json()
