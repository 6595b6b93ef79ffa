"""Releases on their way: each in another process, watched by a thread, which is ended where somebody cancels."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from ...errors import UsageError
from .asks import Ask, Data
from .worker import UNFORESEEN

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
    process: Any = None

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
        self._idle: list[subprocess.Popen[str]] = []
        self._running: dict[str, Job] = {}
        self._closed = False

    def warm(self) -> None:
        """Have a process ready before it is needed."""
        with self._lock:
            self._idle = [process for process in self._idle if process.poll() is None]
            if not self._closed and not self._idle:
                self._idle.append(_spawn())

    def start(self, job: Job) -> threading.Thread:
        """Let a job run."""
        with self._lock:
            if self._closed or len(self._running) >= MOST:
                raise UsageError(_BUSY)
            alive = [process for process in self._idle if process.poll() is None]
            job.process = alive.pop() if alive else _spawn()
            self._idle = alive
            self._running[job.number] = job
        order = {"ask": job.ask.to_dict(), "data": asdict(job.data), "accepted": job.accepted}
        watcher = threading.Thread(target=self._watch, args=(job, json.dumps(order)), daemon=True)
        watcher.start()
        return watcher

    def _watch(self, job: Job, order: str) -> None:
        try:
            with suppress(OSError):
                job.process.stdin.write(order + "\n")
                job.process.stdin.flush()
            for line in job.process.stdout:
                with self._lock:
                    _hear(job, json.loads(line))
                if job.ended:
                    break
        finally:
            self._settle(job)

    def _settle(self, job: Job) -> None:
        """The process of a job that ended serves the next one, unless it was canceled or died."""
        with self._lock:
            if not job.ended:
                job.kind, job.text, job.state = "unforeseen", UNFORESEEN, "failed"
            self._running.pop(job.number, None)
            serves = job.state != "canceled" and job.process.poll() is None and not self._closed
            if serves:
                self._idle.append(job.process)
        if not serves:
            _end(job.process)
        self.warm()

    def cancel(self, job: Job) -> None:
        """End a job; what was charged stays charged."""
        with self._lock:
            if job.ended:
                return
            job.state = "canceled"
        threading.Thread(target=_end, args=(job.process,), daemon=True).start()  # its watcher hears the end

    def close(self) -> None:
        """End every process."""
        with self._lock:
            self._closed = True
            processes = [*self._idle, *(job.process for job in self._running.values())]
        for process in processes:
            _end(process)


def _spawn() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ellipsum.apps.studio.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C in the terminal is for the studio, which ends its processes itself
    )


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


def _end(process: Any) -> None:
    """A process that is asked to end tidies up; one that does not hear is killed."""
    with suppress(OSError):
        process.terminate()
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError, ValueError):
            pipe.close()
