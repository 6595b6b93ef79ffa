"""Running a Spark action: errors sealed, progress shown, and canceled in the cluster by an interrupt here."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...errors import DataError
from ..progress import Progress

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
