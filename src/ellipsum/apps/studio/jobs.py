"""Releases on their way: each in another process, watched by a thread, which is ended where somebody cancels."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from ...errors import UsageError
from ...util.worker_process import WorkerProcess
from .asks import Ask, Data
from .worker import UNFORESEEN
from .worker import __name__ as _WORKER

MOST = 4
"""Releases that run at the same time."""
_GRACE_SECONDS = 3.0
_BUSY = f"{MOST} releases are on their way already. Wait for one of them, or cancel it. Nothing was spent."


@dataclass
class Job:
    """One release on its way. state: "running", "released", "failed" or "canceled"."""

    number: str
    desk: str
    ask: Ask
    data: Data
    accepted: bool
    fields: Any = None
    """The form as it was filled in."""
    state: str = "running"
    part: float = 0.0
    approved: bool = False
    """Whether its plan was approved: from then on it may be charged."""
    kind: str = ""
    text: str = ""
    warnings: list[str] = field(default_factory=list)
    when: str = ""
    """When it ended."""
    process: WorkerProcess | None = None

    @property
    def ended(self) -> bool:
        return self.state != "running"

    def is_for(self, other: Job) -> bool:
        """Whether this job answers the same form; one that failed answers nothing."""
        return self.state != "failed" and (self.ask, self.accepted) == (other.ask, other.accepted)


class Workers:
    """Processes that make releases, one at a time each; one is always ready, with everything loaded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[WorkerProcess] = []
        self._running: dict[str, Job] = {}
        self._closed = False

    def warm(self) -> None:
        """Have a process ready before it is needed."""
        with self._lock:
            self._idle = [process for process in self._idle if process.alive]
            if not self._closed and not self._idle:
                self._idle.append(WorkerProcess(_WORKER, quiet=True))

    def start(self, job: Job) -> threading.Thread:
        """Let a job run."""
        with self._lock:
            if self._closed or len(self._running) >= MOST:
                raise UsageError(_BUSY)
            alive = [process for process in self._idle if process.alive]
            process = job.process = alive.pop() if alive else WorkerProcess(_WORKER, quiet=True)
            self._idle = alive
            self._running[job.number] = job
        order = {"ask": job.ask.to_dict(), "data": asdict(job.data), "accepted": job.accepted}
        watcher = threading.Thread(target=self._watch, args=(job, process, json.dumps(order).encode()), daemon=True)
        watcher.start()
        return watcher

    def _watch(self, job: Job, process: WorkerProcess, order: bytes) -> None:
        try:
            process.send(order)
            while not job.ended and (event := process.receive()) is not None:
                with self._lock:
                    _hear(job, json.loads(event))
        finally:
            self._settle(job, process)

    def _settle(self, job: Job, process: WorkerProcess) -> None:
        """The process of a job that ended serves the next one, unless it was canceled or died."""
        with self._lock:
            if not job.ended:
                job.kind, job.text, job.state = "unforeseen", UNFORESEEN, "failed"
            self._running.pop(job.number, None)
            serves = job.state != "canceled" and process.alive and not self._closed
            if serves:
                self._idle.append(process)
        if not serves:
            process.stop(_GRACE_SECONDS)
            process.close()
        self.warm()

    def cancel(self, job: Job) -> None:
        """End a job; what was charged stays charged."""
        with self._lock:
            if job.ended:
                return
            job.state = "canceled"
            process = job.process
        if process is not None:  # its watcher hears the end
            threading.Thread(target=process.stop, args=(_GRACE_SECONDS,), daemon=True).start()

    def close(self) -> None:
        """End every process."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            busy = [job.process for job in self._running.values() if job.process is not None]
        for process in busy:
            process.stop(_GRACE_SECONDS)  # its watcher closes it
        for process in idle:
            process.stop(_GRACE_SECONDS)
            process.close()


def _hear(job: Job, said: dict[str, Any]) -> None:
    """One event of a process; nothing more is heard of a job that was canceled."""
    if job.ended:
        return
    if said["event"] == "progress":
        job.part = float(said["part"])
    elif said["event"] == "approved":
        job.approved = True
    elif said["event"] == "released":
        job.text, job.warnings, job.state = said["text"], said["warnings"], "released"
    else:
        job.kind, job.text, job.state = said["kind"], job.data.renamed(said["text"]), "failed"
    job.when = time.strftime("%Y-%m-%d %H:%M:%S")
