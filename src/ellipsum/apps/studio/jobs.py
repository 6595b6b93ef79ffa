"""Running releases: each runs in its own process, which a thread watches and the user can cancel."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ... import UsageError, from_json
from ...releases.base import StatisticRelease
from ...util.worker_process import WorkerProcess
from .forms import Filled
from .orders import UNFORESEEN, Order
from .orders import __name__ as _WORKER

MOST = 4
"""The largest number of releases that run at the same time."""
_GRACE_SECONDS = 3.0
_BUSY = f"{MOST} releases are already running. Wait for one of them, or cancel it. Nothing was spent."


@dataclass
class Job:
    """A started release. state: "running", "released", "failed" or "canceled"."""

    number: str
    desk: str
    order: Order
    fields: Filled = field(default_factory=Filled)
    """The filled form."""
    state: str = "running"
    part: float = 0.0
    approved: bool = False
    """Whether its plan was approved; afterwards a charge is possible."""
    kind: str = ""
    text: str = ""
    warnings: list[str] = field(default_factory=list)
    when: str = ""
    """When it ended."""
    process: WorkerProcess | None = None

    @cached_property
    def release(self) -> StatisticRelease:
        """The finished release."""
        release: StatisticRelease = from_json(self.text)
        return release

    @property
    def ended(self) -> bool:
        return self.state != "running"

    def is_for(self, other: Job) -> bool:
        """Whether this job belongs to the same form and did not fail."""
        return self.state != "failed" and self.order == other.order


class Workers:
    """Processes that make one release at a time; one process is always ready, with everything loaded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[WorkerProcess] = []
        self._running: dict[str, Job] = {}
        self._closed = False

    def warm(self) -> None:
        """Start a process before it is needed."""
        with self._lock:
            self._idle = [process for process in self._idle if process.alive]
            if not self._closed and not self._idle:
                self._idle.append(WorkerProcess(_WORKER, quiet=True))

    def start(self, job: Job) -> threading.Thread:
        """Start a job."""
        with self._lock:
            if self._closed or len(self._running) >= MOST:
                raise UsageError(_BUSY)
            self._idle = [process for process in self._idle if process.alive]
            process = job.process = self._idle.pop() if self._idle else WorkerProcess(_WORKER, quiet=True)
            self._running[job.number] = job
        order = json.dumps(job.order.to_dict()).encode()
        watcher = threading.Thread(target=self._watch, args=(job, process, order), daemon=True)
        watcher.start()
        return watcher

    def _watch(self, job: Job, process: WorkerProcess, order: bytes) -> None:
        try:
            process.send(order)
            while not job.ended and (event := process.receive()) is not None:
                with self._lock:
                    _note_event(job, json.loads(event))
        finally:
            self._settle(job, process)

    def _settle(self, job: Job, process: WorkerProcess) -> None:
        """Keep the process of an ended job for the next one, unless the job was canceled or the process died."""
        with self._lock:
            if not job.ended:
                job.kind, job.text, job.state = "unforeseen", UNFORESEEN, "failed"
            self._running.pop(job.number, None)
            is_reused = job.state != "canceled" and process.alive and not self._closed
            if is_reused:
                self._idle.append(process)
        if not is_reused:
            process.stop(_GRACE_SECONDS)
            process.close()
        self.warm()

    def cancel(self, job: Job) -> None:
        """End a job. A charge stays."""
        with self._lock:
            if job.ended:
                return
            job.state = "canceled"
            process = job.process
        if process is not None:  # The thread that watches the process sees it end.
            threading.Thread(target=process.stop, args=(_GRACE_SECONDS,), daemon=True).start()

    def close(self) -> None:
        """End every process."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            busy = [job.process for job in self._running.values() if job.process is not None]
        for process in busy:
            process.stop(_GRACE_SECONDS)  # Its watcher closes it.
        for process in idle:
            process.stop(_GRACE_SECONDS)
            process.close()


def _note_event(job: Job, event: Mapping[str, Any]) -> None:
    """Note an event of a process in its job, unless the job has ended."""
    if job.ended:
        return
    if event["event"] == "progress":
        job.part = float(event["part"])
    elif event["event"] == "approved":
        job.approved = True
    elif event["event"] == "released":
        job.text, job.warnings, job.state = event["text"], event["warnings"], "released"
    else:
        job.kind, job.text, job.state = event["kind"], job.order.data.replace_path(event["text"]), "failed"
    job.when = time.strftime("%Y-%m-%d %H:%M:%S")
