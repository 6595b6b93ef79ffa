"""Write results so that an interrupted run leaves no partial file, and only plain files are replaced."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import DataError, UsageError, visible
from .interrupts import held, note_written

_KINDS = ((stat.S_ISLNK, "a link"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
_DATABASES = (b"SQLite format 3\0", b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
"""The first bytes of SQLite's files, and of the journals beside them."""


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file beside the target, then rename it over the target."""
    data = content.encode() if isinstance(content, str) else content
    temporary: str | None = None
    try:
        with held():
            temporary = temporary_beside(path)
        with open(temporary, "wb") as file:
            file.write(data)
        put_in_place(temporary, path)
    except OSError as error:
        raise unwritable(path, error) from None
    finally:
        discard(temporary)


def temporary_beside(path: Path) -> str:
    """An empty file in the target's folder, with the rights that a new file has."""
    import tempfile  # only if a file is written: it imports much

    handle, temporary = tempfile.mkstemp(prefix=".ellipsum-", dir=path.parent)
    os.close(handle)
    with suppress(OSError):  # some file systems have no rights
        os.chmod(temporary, 0o666 & ~_umask())
    return temporary


def put_in_place(temporary: str, path: Path) -> None:
    """Rename a complete file to its target."""
    with open(temporary, "rb") as file:
        os.fsync(file.fileno())
    with held():
        check_plain(path)
        os.replace(temporary, path)
        note_written()


def discard(temporary: str | None) -> None:
    """Remove a file that was not renamed to its target."""
    if temporary is not None:
        with held(), suppress(OSError):
            os.unlink(temporary)


def check_writable(path: Path | None) -> None:
    """Refuse a target that cannot be written, before any budget is spent."""
    if path is None:
        return
    folder = path.parent
    try:
        check_plain(path)
        if not folder.is_dir():
            raise DataError(f"Could not write {path}: the folder {folder} does not exist.")
        if path.is_dir():
            raise DataError(f"Could not write {path}: it is a folder.")
        with held():
            discard(temporary_beside(path))
    except OSError as error:
        raise unwritable(path, error) from None


def check_plain(path: Path) -> None:
    """Refuse to replace anything but plain files, and databases: a ledger would be lost. Links are not followed."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:  # nothing is there, or writing will report the error
        return
    if stat.S_ISREG(mode) and _is_database(path):
        raise UsageError(f"{path} is a database, which writing would replace. Name another file.")
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "a device")
    raise UsageError(f"{path} is {kind}, which writing would replace. Name a file.")


def _is_database(path: Path) -> bool:
    with suppress(OSError), open(path, "rb") as file:
        return file.read(16).startswith(_DATABASES)
    return False


def make_folder(path: Path) -> None:
    """A folder for several results."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from None


def unwritable(path: Path, error: OSError) -> DataError:
    """The error of a target that could not be written."""
    return (
        error if isinstance(error, DataError) else DataError(f"Could not write {path}: {error.strerror or 'refused'}.")
    )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read_text(path: Path, what: str) -> str:
    """The text of a small public file (bounds, a plan, a release), not of data."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError, ValueError):
        where = visible(str(path))
        raise DataError(f"Could not read the {what} file {where}. Check that it exists and is text.") from None


@dataclass(frozen=True, eq=False, repr=False)
class Kept:
    """Base of results that a ledger may store under a request id."""

    stored: bool = field(default=False, kw_only=True, compare=False)
    """Whether the ledger returned this stored result, at no cost."""


class Saved:
    """Base of what is kept in files as JSON; `to_json` is its own; `ellipsum.load` reads them."""

    def to_json(self) -> str:
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Write the JSON to a file, atomically."""
        write_atomically(Path(path), self.to_json() + "\n")
