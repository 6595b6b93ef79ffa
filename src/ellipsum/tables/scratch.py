"""Temporary folders of rows: open to the user alone, removed after use, and later where a process was killed."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..interrupts import held

try:
    import fcntl
except ImportError:  # pragma: no cover - where there are no locks, nothing is cleared up after a kill
    fcntl = None  # type: ignore[assignment]

_PREFIX = "ellipsum-people-"
_LOCK = "in-use"


class Scratch:
    """A folder in the folder for temporary files, until `close`, or until this object or the process is gone.

    A lock on a file in it is held for as long as the process lives: the system lets go of it even if the process is
    killed, and does not confuse processes. Whoever can take the lock knows that the folder was left behind.
    """

    def __init__(self) -> None:
        _clear_up()
        locks: list[int] = []
        with held():
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))  # for the user alone: mode 700
            self._remove = weakref.finalize(self, _remove, self.path, locks)
        if fcntl is not None:
            # Locked under another name first: a lock of the right name always belongs to a process, dead or alive.
            locks.append(os.open(self.path / "new", os.O_CREAT | os.O_RDWR, 0o600))
            fcntl.flock(locks[0], fcntl.LOCK_EX)
            os.rename(self.path / "new", self.path / _LOCK)

    def close(self) -> None:
        """Remove the folder."""
        self._remove()


def _remove(folder: Path, locks: list[int]) -> None:
    with held():
        shutil.rmtree(folder, ignore_errors=True)
        for lock in locks:
            os.close(lock)


def _clear_up() -> None:
    """Remove the folders of this user's processes that were killed."""
    if fcntl is None:
        return
    for folder in _own_folders():
        with suppress(OSError):  # no lock yet, or in use
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _own_folders() -> Iterator[Path]:
    """Folders of this kind that belong to this user; what others put there, and links, are left alone."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if not entry.name.startswith(_PREFIX):
                continue
            with suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
                    yield Path(entry.path)
