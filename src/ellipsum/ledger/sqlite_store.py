"""A ledger in an SQLite file: one writer at a time, every transaction on disk before it counts."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..errors import DataError, UsageError, visible
from .entries import TABLES, Row

_WAIT_MS = 60_000  # for other writers, each of which takes milliseconds
_MARK = 0x656C6C73  # the file's own sign, "ells"
_KEPT = (
    "create trigger if not exists ellipsum_no_change before update on ellipsum_entries "
    "begin select raise(abort, 'entries are never changed'); end",
    "create trigger if not exists ellipsum_no_removal before delete on ellipsum_entries "
    "begin select raise(abort, 'entries are never removed'); end",
)
_SCHEMA = "select type, name, sql from sqlite_master where name like 'ellipsum_%' or tbl_name like 'ellipsum_%'"
_AS_IT_IS = "mode=ro&immutable=1"
_inherited: list[sqlite3.Connection] = []
"""Connections of a parent process, which its child must neither use nor close."""


class SqliteTransaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def run(self, text: str, values: Sequence[Any] = ()) -> list[Row]:
        return self.connection.execute(text, values).fetchall()

    def each(self, text: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        return self.connection.execute(text, values)


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[SqliteTransaction]:
    """Commit what is done within, or nothing of it."""
    connection.execute(begin)
    try:
        yield SqliteTransaction(connection)
        connection.execute("commit")
    finally:
        if connection.in_transaction:
            connection.execute("rollback")


class MemoryStore:
    """The ledger of one process, in its memory."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._pid = os.getpid()

    def create(self) -> None:
        with self.writing() as transaction:
            for text in TABLES:
                transaction.run(text)

    @contextmanager
    def writing(self) -> Iterator[SqliteTransaction]:
        if os.getpid() != self._pid:  # a copy would have the whole budget again
            raise UsageError("a budget in memory serves only the process that made it. Use a ledger in a file.")
        with self._lock, _transaction(self._connection, "begin immediate") as transaction:
            yield transaction

    reading = writing


class SqliteStore:
    """The ledger in a file."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._shown = visible(path)
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, int, int, str] | None = None

    def create(self) -> None:
        with self._told("made"):
            with suppress(FileExistsError):
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            connection = self._open()
            self._check_kind(connection)
            _keep_a_log(connection)
        with self.writing() as transaction:
            for text in (*TABLES, *_KEPT):
                transaction.run(text)
            transaction.run(f"pragma application_id = {_MARK}")

    @contextmanager
    def writing(self) -> Iterator[SqliteTransaction]:
        with self._lock, self._told("written"), _transaction(self._open(), "begin immediate") as transaction:
            self._check_schema(transaction.connection)
            yield transaction

    @contextmanager
    def reading(self) -> Iterator[SqliteTransaction]:
        with self._lock, self._told("read"), _transaction(self._open(), "begin") as transaction:
            self._check_schema(transaction.connection)
            yield transaction

    def _open(self) -> sqlite3.Connection:
        """The kept connection, or a new one in a child process, for another file, and for one that is not written."""
        mode = self._mode()
        now = (os.getpid(), *self._file(), mode)
        if self._connection is not None and (self._opened != now or mode == _AS_IT_IS):
            self._drop()
        if self._connection is None:
            self._connection, self._opened = self._connected(mode), now
            self._closing = weakref.finalize(self, _close, self._connection, os.getpid())
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None and self._opened and self._opened[0] != os.getpid():
            _inherited.append(self._connection)
        self._closing()
        self._connection = None

    def _file(self) -> tuple[int, int]:
        """Which file it is, whatever its name; several names would be several ledgers, each with charges of its own."""
        if self._path.exists() and not self._path.is_file():
            raise DataError(f"{self._shown} is a folder or a device. Name a file for the ledger.")
        if not self._path.is_file():
            raise DataError(f"there is no ledger at {self._shown}. Make it: ellipsum ledger init {self._shown} ...")
        found = self._path.stat()
        if found.st_nlink > 1:
            raise DataError(
                f"the ledger {self._shown} has several names (hard links), and each would miss charges of the others. "
                "Keep one of them, and make copies with cp."
            )
        return found.st_dev, found.st_ino

    def _mode(self) -> str:
        """A file that may not be written is taken as it is, and nothing is put beside it."""
        beside = Path(f"{os.path.realpath(self._path)}-wal")
        in_use = beside.is_file() and beside.stat().st_size > 0
        if os.access(self._path, os.W_OK) and (in_use or os.access(beside.parent, os.W_OK)):
            return "mode=rw"
        return "mode=ro" if in_use else _AS_IT_IS

    def _connected(self, mode: str) -> sqlite3.Connection:
        name = f"file:{quote(os.fsencode(os.path.realpath(self._path)))}?{mode}"
        connection = sqlite3.connect(
            name, uri=True, isolation_level=None, timeout=_WAIT_MS / 1000, check_same_thread=False
        )
        connection.execute("pragma synchronous = extra")
        return connection

    def _check_kind(self, connection: sqlite3.Connection) -> None:
        """A database of something else is not made a ledger by a slip of the pen."""
        ((tables,),) = connection.execute("select count(*) from sqlite_master").fetchall()
        ((mark,),) = connection.execute("pragma application_id").fetchall()  # set together with the first tables
        if tables and mark != _MARK:
            raise UsageError(f"{self._shown} is a database of something else. Name a new file for the ledger.")

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        """Nothing else may act on the ledger's tables: a trigger could swallow charges, a view could hide them."""
        if not set(connection.execute(_SCHEMA)) <= _schema():
            raise DataError(
                f"the tables of the ledger {self._shown} are not as they were made: somebody has changed them, or put "
                "triggers on them. Nothing was published."
            )

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Errors of the database in our words; it sees no data, so its own may be shown."""
        reason = None
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            if isinstance(error, DataError):
                raise
            reason = str(getattr(error, "strerror", None) or error)
        if reason is not None:
            raise DataError(f"the ledger {self._shown} could not be {what}: {visible(reason)}. Nothing was published.")


def _keep_a_log(connection: sqlite3.Connection) -> None:
    """Others may be doing the same to a new file, for which SQLite does not wait by itself."""
    until = time.monotonic() + _WAIT_MS / 1000
    while connection.execute("pragma journal_mode").fetchone() != ("wal",):
        try:
            connection.execute("pragma journal_mode = wal")
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


@cache
def _schema() -> frozenset[Row]:
    """What a ledger's tables, indices and triggers are."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for text in (*TABLES, *_KEPT):
            connection.execute(text)
        return frozenset(connection.execute(_SCHEMA))


def _close(connection: sqlite3.Connection, pid: int) -> None:
    """The last one puts everything into the one file."""
    if pid == os.getpid():
        with suppress(sqlite3.Error):
            connection.close()
