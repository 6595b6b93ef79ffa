"""Real Spark in one process, or with executors of their own: `make test-spark`."""

import os
import sys
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ellipsum.sources import Selection, open_source
from ellipsum.sources.spark.runtime import ensure_java

os.environ["PYSPARK_PYTHON"] = sys.executable
ensure_java()


@contextmanager
def session(master, **settings):
    import pyspark
    from pyspark.sql import SparkSession

    os.environ["SPARK_HOME"] = os.path.dirname(pyspark.__file__)
    builder = SparkSession.builder.master(master).appName("tests")
    usual = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "3",
    }
    for name, value in {**usual, **settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


def pytest_collection_modifyitems(items):
    """Tests on a cluster come last: it ends the session that all others share."""
    items.sort(key=lambda item: "cluster" in item.fixturenames)


@pytest.fixture(scope="session")
def spark():
    """Two threads, and every task may fail three times."""
    with session("local[2,4]") as made:
        yield made


@pytest.fixture
def settings(spark):
    """Sets options of the session, and sets them back."""
    before = {}

    def put(wanted):
        for name, value in wanted.items():
            before.setdefault(name, spark.conf.get(name, None))
            spark.conf.set(name, value)

    yield put
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


SMALL_BATCHES = {"spark.sql.execution.arrow.maxRecordsPerBatch": "100"}


ROWS = 3001


def mixed_table(rows=ROWS):
    """Every numeric type, with missing, NaN and infinite cells, and columns that are no numbers."""
    rng = np.random.default_rng(7)
    values = rng.normal(size=rows)
    holes = rng.random(rows) < 0.05
    odd = values.copy()
    odd[::11], odd[::13], odd[::17] = np.nan, np.inf, -np.inf
    whole = rng.integers(-(2**40), 2**40, rows)
    return pa.table(
        {
            "double": pa.array(odd, mask=holes),
            "single": pa.array(values.astype(np.float32), mask=holes[::-1]),
            "long": pa.array(whole, mask=holes),
            "short": pa.array((whole % 1000).astype(np.int16)),
            "flag": pa.array(values > 0, mask=holes),
            "price": pa.array(whole % 10**9, pa.int64()).cast(pa.decimal128(38, 0)).cast(pa.decimal128(38, 7)),
            "name": pa.array([f"Smith {i}" for i in range(rows)]),
            "tags": pa.array([["a"]] * rows),
        }
    )


NUMBERS = ["double", "single", "long", "short", "flag", "price"]


@pytest.fixture(scope="session")
def mixed(tmp_path_factory):
    """The path of a Parquet file of mixed types; its row groups make several partitions."""
    path = tmp_path_factory.mktemp("data") / "mixed.parquet"
    pq.write_table(mixed_table(), path, row_group_size=700)
    return str(path)


def source(data, columns=None, key=None):
    return open_source(data, Selection(columns, key))


def attempt_number():
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId(), context.attemptNumber()


def failing(attempts):
    """Delivers half of its batches, then fails, in the first attempts of every task."""

    def run(batches):
        for i, batch in enumerate(batches):
            if i and attempt_number()[1] < attempts:
                raise RuntimeError(f"cell {batch.column(0)[0].as_py()}")
            yield batch

    return run


def kept_frames(spark):
    """Frames that the cluster still keeps."""
    return spark.sparkContext._jsc.getPersistentRDDs().size()


def part_sizes(monkeypatch, kind):
    """The lengths of the parts that the driver collects from here on; collecting a frame of this kind fails."""
    sizes, collect = [], kind.collect

    def recorded(some):
        found = collect(some)
        sizes.extend(len(row.part) for row in found)
        return found

    def refused(*_):
        raise AssertionError("the frame was collected")

    monkeypatch.setattr(kind, "collect", recorded)
    for name in ("toArrow", "toPandas", "__arrow_c_stream__", "toLocalIterator"):
        monkeypatch.setattr(kind, name, refused)
    return sizes
