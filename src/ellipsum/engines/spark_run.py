"""Running a Spark action: errors sealed, progress shown, and cancelled in the cluster by an interrupt here."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ..errors import DataError
from ..tables import Progress
from ..tables.base import attempt

FAILED = (
    "The Spark job failed, and nothing was published. Spark's own log says why: the frame's query, a lost worker, or "
    "workers without the same ellipsum, numpy, numba and pyarrow as here."
)
_POLL_SECONDS = 0.2
_groups = itertools.count(1)


def run(frame: Any, call: Callable[[], Any], progress: Progress | None = None) -> Any:
    """The result of a Spark action, in a thread of its own: an interrupt cancels its jobs, and progress is shown."""
    context = _context(frame)
    if context is None:
        return attempt(FAILED, call)
    from pyspark import InheritableThread

    group, outcome = f"ellipsum-{next(_groups)}", []

    def work() -> None:
        try:
            context.setJobGroup(group, "ellipsum")
            outcome.append(call())
        except Exception:  # whatever it says may quote a cell
            pass

    thread = InheritableThread(target=work)
    thread.start()
    try:
        _wait(thread, context, group, progress)
    except BaseException:
        context.cancelJobGroup(group)
        raise
    if not outcome:
        raise DataError(FAILED)
    return outcome[0]


def _context(frame: Any) -> Any:
    """The Spark context, or None behind Spark Connect."""
    try:
        return frame.sparkSession.sparkContext
    except Exception:
        return None


def _wait(thread: Any, context: Any, group: str, progress: Progress | None) -> None:
    shown = 0.0
    while thread.is_alive():
        thread.join(_POLL_SECONDS)
        if progress is not None:
            shown = max(shown, _share(context, group))
            progress(shown)
    if progress is not None:
        progress(1.0)


def _share(context: Any, group: str) -> float:
    """Tasks done of the group's tasks known so far."""
    tracker = context.statusTracker()
    jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
    stages = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
    tasks = sum(stage.numTasks for stage in stages if stage is not None)
    done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
    return done / tasks if tasks else 0.0
