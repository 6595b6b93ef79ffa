"""Releases on their way: each in a process of its own, watched by a thread, ended where somebody cancels."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from ..errors import UsageError
from .asks import Ask, Data
from .worker import UNFORESEEN

MOST = 4
"""Releases that run at the same time."""
_GRACE_SECONDS = 3.0
_BUSY = f"{MOST} releases are on their way already. Wait for one of them, or cancel it. Nothing was spent."


@dataclass
class Job:
    """One release on its way. state: "running", "released", "failed" or "cancelled"."""

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
    process: Any = None

    @property
    def ended(self) -> bool:
        return self.state != "running"


class Workers:
    """Processes that make releases; one is always ready, with everything imported."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ready: subprocess.Popen[str] | None = None
        self._running: dict[str, Job] = {}
        self._closed = False

    def warm(self) -> None:
        """Have a process ready before it is needed."""
        with self._lock:
            if not self._closed and (self._ready is None or self._ready.poll() is not None):
                self._ready = _spawn()

    def start(self, job: Job) -> threading.Thread:
        """Let a job run."""
        with self._lock:
            if len(self._running) >= MOST:
                raise UsageError(_BUSY)
            ready, self._ready = self._ready, None
            job.process = ready if ready is not None and ready.poll() is None else _spawn()
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
                _hear(job, json.loads(line))
        finally:
            _reap(job.process)
            if not job.ended:
                job.kind, job.text, job.state = "unforeseen", UNFORESEEN, "failed"
            with self._lock:
                self._running.pop(job.number, None)
            self.warm()

    def cancel(self, job: Job) -> None:
        """End a job; what was charged stays charged."""
        with self._lock:
            if job.ended:
                return
            job.state = "cancelled"
        threading.Thread(target=_end, args=(job.process,), daemon=True).start()

    def close(self) -> None:
        """End every process."""
        with self._lock:
            self._closed = True
            processes = [job.process for job in self._running.values()]
            processes += [] if self._ready is None else [self._ready]
        for process in processes:
            _end(process)


def _spawn() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ellipsum.studio.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C in the terminal is for the studio, which ends its processes itself
    )


def _hear(job: Job, said: dict[str, Any]) -> None:
    """One event of a process; nothing is heard of a job that was cancelled."""
    if job.ended:
        return
    if said["event"] == "progress":
        job.part = float(said["part"])
    elif said["event"] == "approved":
        job.approved = True
    elif said["event"] == "released":
        job.text, job.warnings, job.state = said["text"], said["warnings"], "released"
    else:
        job.kind, job.text, job.state = said["kind"], said["text"], "failed"


def _end(process: Any) -> None:
    """A process that is asked to end tidies up; one that does not hear is killed."""
    with suppress(OSError):
        process.terminate()
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
    _reap(process)


def _reap(process: Any) -> None:
    with suppress(OSError):
        process.stdin.close()
    process.wait()
