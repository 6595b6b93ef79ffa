"""A second interpreter that works for this one, and the messages between the two."""

from __future__ import annotations

import math
import os
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress

_LENGTH = struct.Struct("<q")
_CHUNK = 1 << 20


class Pipe:
    """Messages to and from another process, each a length followed by that many bytes."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self.incoming, self.outgoing = incoming, outgoing

    def send(self, message: bytes) -> None:
        """Send a message. If the other process has ended, the next `receive` says so."""
        view = memoryview(_LENGTH.pack(len(message)) + message)
        with suppress(OSError):
            while view:
                view = view[os.write(self.outgoing, view) :]

    def receive(
        self, seconds: float | None = None, most: int | None = None, caller: Pipe | None = None
    ) -> bytes | None:
        """The next message; None if the other process has ended, is too slow, or sends more than `most` bytes.

        caller: the pipe to the process that waits for this message; None too, if that process has ended.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        header = self._read(_LENGTH.size, deadline, caller)
        size = -1 if header is None else _LENGTH.unpack(header)[0]
        if size < 0 or (most is not None and size > most):
            return None
        return self._read(size, deadline, caller)

    def _read(self, size: int, deadline: float | None, caller: Pipe | None) -> bytes | None:
        poll = None
        if deadline is not None or caller is not None:
            poll = select.poll()
            poll.register(self.incoming, select.POLLIN)
            if caller is not None:
                poll.register(caller.incoming, 0)  # reports only that the other end was closed
        data = bytearray()
        while len(data) < size:
            if poll is not None:
                left = None if deadline is None else max(0, math.ceil(1000 * (deadline - time.monotonic())))
                if self.incoming not in dict(poll.poll(left)):
                    return None
            part = os.read(self.incoming, min(size - len(data), _CHUNK))
            if not part:
                return None
            data += part
        return bytes(data)


class WorkerProcess(Pipe):
    """A new interpreter, with the same path, that runs the `serve` of a module until this one closes it.

    quiet: what it prints is dropped; otherwise it goes to standard error. It leads a process group of its own, so that
    Ctrl-C in the terminal does not reach it.
    """

    def __init__(self, module: str, *, quiet: bool = False, environment: Mapping[str, str] | None = None) -> None:
        path = [folder for folder in sys.path if isinstance(folder, str)]
        code = f"import sys; sys.path[:] = {path!r}; from {module} import serve; serve()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            bufsize=0,
            env=environment,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        super().__init__(self.process.stdout.fileno(), self.process.stdin.fileno())

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def stop(self, seconds: float) -> None:
        """Ask the process to end, so that it can clean up; kill it after this many seconds."""
        self.process.terminate()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()

    def kill(self) -> None:
        """End the process and all its children at once. Safe from any thread."""
        if self.process.returncode is None:
            with suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process and close the pipes."""
        self.kill()
        self.process.wait()
        for end in (self.process.stdin, self.process.stdout):
            if end is not None:
                with suppress(OSError):
                    end.close()


def take_pipe() -> Pipe:
    """The worker's end of the pipe. Afterwards standard input is empty, and printing goes to standard error."""
    pipe = Pipe(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return pipe
