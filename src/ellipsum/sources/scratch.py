"""Temporary files of rows: open to the user alone, removed after use, and later where a process was killed.

A single file has no name from the start, so that nothing of it outlives the process (`unnamed`). DuckDB needs a folder
(`Scratch`): it is removed by `close`, by `clear_own` and, where nobody else listens, on signals that end the process.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from ..util.interrupts import held

try:
    import fcntl
except ImportError:  # pragma: no cover - where there are no locks, nothing is cleared up after a kill
    fcntl = None  # type: ignore[assignment]

_PREFIX = "ellipsum-people-"
_LOCK = "in-use"
_ENDINGS = ("SIGTERM", "SIGHUP", "SIGQUIT")
_TRIES = 20  # a sort that still runs may put a file into a folder that is being removed
_own: set[Path] = set()


def unnamed() -> BinaryIO:
    """A file for the user alone (mode 600) that no folder lists: it is gone with its last handle, even after a kill."""
    return cast(BinaryIO, tempfile.TemporaryFile(prefix=_PREFIX))


class Scratch:
    """A folder in the folder for temporary files, until `close`, or until this object or the process is gone.

    A lock on a file in it is held for as long as the process lives: the system lets go of it even if the process is
    killed, and does not confuse processes. Whoever can take the lock knows that the folder was left behind.
    """

    def __init__(self) -> None:
        _clear_up()
        _listen()
        locks: list[int] = []
        with held():
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))  # for the user alone: mode 700
            _own.add(self.path)
            self._close = weakref.finalize(self, _close, self.path, locks)
        if fcntl is not None:
            # Locked under another name first: a lock of the right name always belongs to a process, dead or alive.
            locks.append(os.open(self.path / "new", os.O_CREAT | os.O_RDWR, 0o600))
            fcntl.flock(locks[0], fcntl.LOCK_EX)
            os.rename(self.path / "new", self.path / _LOCK)

    def close(self) -> None:
        """Remove the folder."""
        self._close()


def _close(path: Path, locks: list[int]) -> None:
    with held():
        if path in _own:  # in a process that was forked it is the parent's
            _remove(path)
            _own.discard(path)
    _stop_listening()
    for lock in locks:
        os.close(lock)


def clear_own() -> None:
    """Remove every folder of this process: for whoever ends it in a hurry."""
    for path in list(_own):
        _remove(path)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_own.clear)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.rmdir()  # an empty one goes even where no file can be opened any more
    for _ in range(_TRIES):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return


# Signals ----------------------------------------------------------------------------------------------------


_heard: list[int] = []


def _listen() -> None:
    """Remove the folders before a signal ends the process; a signal that somebody handles or ignores is left alone."""
    if _heard or threading.current_thread() is not threading.main_thread():
        return
    for name in _ENDINGS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _ended)
            _heard.append(number)


def _stop_listening() -> None:
    if _own or threading.current_thread() is not threading.main_thread():
        return
    while _heard:
        number = _heard.pop()
        if signal.getsignal(number) is _ended:
            signal.signal(number, signal.SIG_DFL)


def _ended(number: int, _: Any) -> None:
    clear_own()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


# Folders of others ------------------------------------------------------------------------------------------


def _clear_up() -> None:
    """Remove the folders of this user's processes that were killed."""
    if fcntl is None:
        return
    for folder in _users_folders():
        with suppress(OSError):  # no lock yet, or in use
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _users_folders() -> Iterator[Path]:
    """Folders of this kind that belong to this user; what others put there, and links, are left alone."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if not entry.name.startswith(_PREFIX):
                continue
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid():
                    yield Path(entry.path)
