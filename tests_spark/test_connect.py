"""Spark Connect, in a process of its own: a client without a Spark context gives the local releases."""

import subprocess
import sys

import pytest

pytest.importorskip("grpc")

BEGIN = """
import os, sys, tempfile
import numpy as np, pyarrow as pa
import ellipsum as es
from pyspark.sql import SparkSession

builder = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "3").getOrCreate()
rng = np.random.default_rng(0)
people = [f"Smith {i}" if i else None for i in rng.integers(0, 80, 500)]
data = pa.table({"a": rng.normal(size=500), "b": rng.integers(0, 9, 500), "who": people})
frame = spark.createDataFrame(data).repartition(3)
assert type(frame).__module__.startswith("pyspark.sql.connect")
box, budget = es.Box({"a": (-3, 3), "b": (0, 9)}), {"epsilon": 1, "delta": 1e-6}
fixed = lambda: np.random.default_rng(1)
"""


RELEASES = """
for how in ({}, {"privacy_id": "who"}, {"privacy_id": es.People("who", "sum", 2)}):
    there, here = (es.sum(source, box, rng=fixed(), **how, **budget) for source in (frame, data))
    assert there.to_json() == here.to_json()
target = tempfile.mkdtemp() + "/p.parquet"
how = {"epsilon": 1e12, "delta": 1e-6, "matrix": np.eye(2)}
there, here = es.project(frame, 2, box, output=target, **how), es.project(data, 2, box, **how)
gap = np.abs(np.sort(there.value, axis=0) - np.sort(here.value, axis=0)).max()
assert gap < 12 * here.noise_std < 1e-3
print("equal")
"""

ERRORS = """
try:
    es.sum(frame.selectExpr("cast(raise_error(who) as double) as x"), es.Ball(1), **budget)
except es.DataError as error:
    assert "Smith" not in str(error) and error.__context__ is None
    print("sealed")
"""

INTERRUPT = """
import signal, threading, time
started = tempfile.mkdtemp()

def slow(batches):
    import os, time
    open(os.path.join(started, str(os.getpid())), "w").close()
    time.sleep(300)
    yield from batches

def interrupt():
    while not os.listdir(started):
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    es.sum(frame.select("a").mapInArrow(slow, "a double"), es.Ball(1), neighbors="add_remove", n=9, **budget)
except KeyboardInterrupt:
    begin = time.monotonic()
    # Its tasks would keep both cores for five minutes: that this ends says that they are gone.
    assert spark.range(10).repartition(4).count() == 10
    assert time.monotonic() - begin < 100
    print("interrupted")
"""


def test_a_client_gives_the_local_releases_seals_errors_and_can_be_interrupted():
    code = BEGIN + RELEASES + ERRORS + INTERRUPT
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split()[-3:] == ["equal", "sealed", "interrupted"]
