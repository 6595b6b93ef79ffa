"""Writing results so that an interrupted run leaves nothing half-written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from .errors import DataError


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write beside the target, then rename over it."""
    data = content.encode() if isinstance(content, str) else content
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise DataError(f"could not write {path}: {error.strerror}.") from None
    finally:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)


def check_writable(path: Path | None) -> None:
    """Refuse a target that cannot be written, before any budget is spent."""
    if path is None:
        return
    folder = path.parent
    if not folder.is_dir():
        raise DataError(f"could not write {path}: the folder {folder} does not exist.")
    if path.is_dir():
        raise DataError(f"could not write {path}: it is a folder.")
    try:
        handle, probe = tempfile.mkstemp(prefix=f".{path.name}.", dir=folder)
        os.close(handle)
        os.unlink(probe)
    except OSError as error:
        raise DataError(f"could not write {path}: {error.strerror}.") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
