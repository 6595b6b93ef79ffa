"""Failed, repeated and killed tasks: a row is counted once, or nothing is published."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyspark
import pytest
from conftest import ROWS, SMALL_BATCHES, attempt_number, failing, session
from pyspark.cloudpickle import register_pickle_by_value

import ellipsum as es

for module in (__name__, failing.__module__):  # executors cannot import the tests
    register_pickle_by_value(sys.modules[module])

BUDGET = {"epsilon": 1, "delta": 1e-6}
BOX = es.Box([-2, -(2**40)], [2, 2**40])
COLUMNS = ["double", "long"]
SCHEMA = "double double, long long"


PLAN = es.plan("sum", BOX, n=ROWS, columns=COLUMNS, **BUDGET)


def released(data, **people):
    """One pass: nothing is counted first."""
    plan = PLAN
    if people:
        plan = es.plan("sum", BOX, neighbors="add_remove", n=ROWS, columns=COLUMNS, **people, **BUDGET)
    return plan.release(data, rng=np.random.default_rng(3)).value


def narrow(spark, path, partitions, *more):
    return spark.read.parquet(path).select(*COLUMNS, *more).repartition(partitions)


def test_tasks_that_fail_halfway_count_once(spark, mixed, settings):
    settings(SMALL_BATCHES)
    frame = narrow(spark, mixed, 2)
    assert np.array_equal(released(frame.mapInArrow(failing(2), SCHEMA)), released(mixed))


def test_people_are_whole_where_tasks_fail(spark, mixed, settings):
    """Failures while rows are sent to where people meet."""
    settings(SMALL_BATCHES)
    frame = narrow(spark, mixed, 2, "name").mapInArrow(failing(1), f"{SCHEMA}, name string")
    assert np.array_equal(released(frame, privacy_id="name"), released(mixed, privacy_id="name"))


def test_tasks_that_always_fail_end_cleanly(spark, mixed, settings):
    settings(SMALL_BATCHES)
    frame = narrow(spark, mixed, 1).mapInArrow(failing(99), SCHEMA)
    with pytest.raises(es.DataError) as caught:
        released(frame)
    assert "cell" not in str(caught.value)
    assert caught.value.__context__ is None


def test_side_effects_would_count_twice(spark, mixed, settings, tmp_path):
    """The trap that results avoid: what tasks add up outside their output holds the rows of failed attempts too."""
    settings(SMALL_BATCHES)
    notes = str(tmp_path)

    def counted(batches):
        partition, attempt = attempt_number()
        for i, batch in enumerate(batches):
            (Path(notes) / f"{partition}-{attempt}-{i}").write_text(str(batch.num_rows))
            yield batch

    frame = narrow(spark, mixed, 2).mapInArrow(counted, SCHEMA).mapInArrow(failing(1), SCHEMA)
    assert np.array_equal(released(frame), released(mixed))
    assert sum(int(note.read_text()) for note in tmp_path.iterdir()) > ROWS


def kill_executor():
    """Kill the Java process above this Python worker."""
    process = os.getpid()
    while Path(f"/proc/{process}/comm").read_text().strip() != "java":
        process = int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
    os.kill(process, signal.SIGKILL)


def deadly(folder, times):
    """Kills its executor after half of a partition, the first `times` times."""

    def run(batches):
        for i, batch in enumerate(batches):
            if i == 3 and attempt_number()[0] == 1:
                done = len(list(Path(folder).iterdir()))
                if done < times:
                    (Path(folder) / f"{done}-{os.getpid()}").touch()
                    kill_executor()
                    os._exit(1)
            yield batch

    return run


def slow(folder):
    """The first attempt at partition 0 takes far longer than any other task."""

    def run(batches):
        partition, attempt = attempt_number()
        (Path(folder) / f"{partition}-{attempt}").touch()
        yield from batches
        if partition == 0 and attempt == 0:
            time.sleep(120)

    return run


SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.minTaskRuntime": "500ms",
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def standalone(folder):
    """A cluster of a master and two workers, each with an address of its own: copies of a task run on another host."""
    port = free_port()
    url, launch = f"spark://127.0.0.1:{port}", [str(Path(pyspark.__file__).parent / "bin" / "spark-class")]
    parts = [["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    for i in (2, 3):
        place = ["--host", f"127.0.0.{i}", "--webui-port", "0", "--work-dir", str(folder / str(i))]
        parts.append(["org.apache.spark.deploy.worker.Worker", url, "--cores", "1", "--memory", "800m", *place])
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = [subprocess.Popen(launch + part, **quiet) for part in parts]
    try:
        yield url
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()


@pytest.fixture(scope="module")
def cluster(spark, tmp_path_factory):
    """Executors in processes of their own, one each on two workers."""
    spark.stop()
    settings = {"spark.executor.memory": "600m", "spark.task.maxFailures": "2", **SMALL_BATCHES, **SPECULATION}
    with standalone(tmp_path_factory.mktemp("cluster")) as url, session(url, **settings) as made:
        yield made


def test_a_killed_executor_costs_no_row_and_adds_none(cluster, mixed, tmp_path):
    frame = narrow(cluster, mixed, 4).mapInArrow(deadly(str(tmp_path), 1), SCHEMA)
    assert np.array_equal(released(frame), released(mixed))
    assert len(list(tmp_path.iterdir())) == 1


def test_a_killed_executor_splits_nobody(cluster, mixed, tmp_path):
    """Rows that were sent to where people meet are lost with it, and sent again."""
    frame = narrow(cluster, mixed, 4, "name").mapInArrow(deadly(str(tmp_path), 1), f"{SCHEMA}, name string")
    how = {"privacy_id": es.People("name", max_rows=3)}
    assert np.array_equal(released(frame, **how), released(mixed, **how))
    assert len(list(tmp_path.iterdir())) == 1


def test_speculative_duplicates_count_once(cluster, mixed, tmp_path):
    frame = narrow(cluster, mixed, 5).mapInArrow(slow(str(tmp_path)), SCHEMA)
    value = released(frame)
    assert {"0-0", "0-1"} <= {path.name for path in tmp_path.iterdir()}
    assert np.array_equal(value, released(mixed))


def test_executors_that_die_every_time_end_cleanly(cluster, mixed, tmp_path):
    frame = narrow(cluster, mixed, 4).mapInArrow(deadly(str(tmp_path), 99), SCHEMA)
    with pytest.raises(es.DataError, match="nothing was published"):
        released(frame)
    assert len(list(tmp_path.iterdir())) >= 2
