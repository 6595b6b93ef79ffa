"""A ledger in an SQLite file or in memory: one writer at a time, every transaction on disk when it ends."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

from ..errors import DataError, UsageError, visible
from .entries import TABLES, Row

_WAIT_MS = 60_000  # Other writers take milliseconds each.
_MARK = 0x656C6C73  # The application id of the file, "ells".
_TRIGGERS = (
    "create trigger if not exists ellipsum_no_change before update on ellipsum_entries "
    "begin select raise(abort, 'entries are never changed'); end",
    "create trigger if not exists ellipsum_no_removal before delete on ellipsum_entries "
    "begin select raise(abort, 'entries are never removed'); end",
)
_SCHEMA = "select type, name, sql from sqlite_master where name like 'ellipsum_%' or tbl_name like 'ellipsum_%'"
_IMMUTABLE = "mode=ro&immutable=1"
_ONE_PROCESS = "A budget in memory works only in the process that made it. Use a ledger in a file."
_inherited: list[sqlite3.Connection] = []
"""Connections of a parent process, which a child must neither use nor close."""


class SqliteTransaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def run(self, text: str, values: Sequence[Any] = ()) -> list[Row]:
        return self.connection.execute(text, values).fetchall()

    def each(self, text: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        return self.connection.execute(text, values)


@contextmanager
def _open_transaction(connection: sqlite3.Connection, begin: str) -> Iterator[SqliteTransaction]:
    """Commit all statements of a transaction, or none."""
    connection.execute(begin)
    try:
        yield SqliteTransaction(connection)
        connection.execute("commit")
    finally:
        if connection.in_transaction:
            connection.execute("rollback")


class MemoryStore:
    """The ledger of one process, in memory."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._pid = os.getpid()

    def __deepcopy__(self, memo: object) -> MemoryStore:  # Estimators copy their arguments; a copy has the same budget.
        return self

    def __reduce__(self) -> NoReturn:
        raise UsageError(_ONE_PROCESS)

    def create(self) -> None:
        with self.writing() as transaction:
            for text in TABLES:
                transaction.run(text)

    @contextmanager
    def writing(self) -> Iterator[SqliteTransaction]:
        if os.getpid() != self._pid:  # A copy would have the whole budget again.
            raise UsageError(_ONE_PROCESS)
        with self._lock, _open_transaction(self._connection, "begin immediate") as transaction:
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

    def __reduce__(self) -> tuple[type[SqliteStore], tuple[str]]:  # Estimators copy their arguments.
        return SqliteStore, (str(self._path),)

    def create(self) -> None:
        with self._translate_errors("created"):
            with suppress(FileExistsError):
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            connection = self._open()
            ((tables,),) = connection.execute("select count(*) from sqlite_master").fetchall()
            ((mark,),) = connection.execute("pragma application_id").fetchall()
            if tables and mark != _MARK:
                raise UsageError(f"{self._shown} is a database of another program. Use a new file for the ledger.")
            _use_write_ahead_log(connection)
        with self.writing() as transaction:
            for text in (*TABLES, *_TRIGGERS):
                transaction.run(text)
            transaction.run(f"pragma application_id = {_MARK}")

    def writing(self) -> AbstractContextManager[SqliteTransaction]:
        return self._transaction("written", "begin immediate")

    def reading(self) -> AbstractContextManager[SqliteTransaction]:
        return self._transaction("read", "begin")

    @contextmanager
    def _transaction(self, what: str, begin: str) -> Iterator[SqliteTransaction]:
        with self._lock, self._translate_errors(what), _open_transaction(self._open(), begin) as transaction:
            self._check_schema(transaction.connection)
            yield transaction

    def _open(self) -> sqlite3.Connection:
        """The open connection, or a new one: in a child process, for a replaced file, or to read only."""
        mode = self._mode()
        current = (os.getpid(), *self._file(), mode)
        if self._connection is not None and (self._opened != current or mode == _IMMUTABLE):
            self._drop()
        if self._connection is None:
            name = f"file:{quote(os.fsencode(os.path.realpath(self._path)))}?{mode}"
            connection = sqlite3.connect(
                name, uri=True, isolation_level=None, timeout=_WAIT_MS / 1000, check_same_thread=False
            )
            connection.execute("pragma synchronous = extra")
            self._connection, self._opened = connection, current
            self._closing = weakref.finalize(self, _close, connection, os.getpid())
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None and self._opened and self._opened[0] != os.getpid():
            _inherited.append(self._connection)
        self._closing()
        self._connection = None

    def _file(self) -> tuple[int, int]:
        """The identity of the file. Hard links are refused: each name would be a ledger with charges of its own."""
        if self._path.exists() and not self._path.is_file():
            raise DataError(f"{self._shown} is a folder or a device. Use the path of a file.")
        if not self._path.is_file():
            raise DataError(f"There is no ledger at {self._shown}. Create one: ellipsum ledger init {self._shown} ...")
        status = self._path.stat()
        if status.st_nlink > 1:
            raise DataError(
                f"The ledger {self._shown} has several names (hard links). Each would miss the charges of the others. "
                "Keep one of them, and use cp for copies."
            )
        return status.st_dev, status.st_ino

    def _mode(self) -> str:
        """How to open the file. A file that may not be written is only read, and no file is created beside it."""
        beside = Path(f"{os.path.realpath(self._path)}-wal")
        in_use = beside.is_file() and beside.stat().st_size > 0
        if os.access(self._path, os.W_OK) and (in_use or os.access(beside.parent, os.W_OK)):
            return "mode=rw"
        return "mode=ro" if in_use else _IMMUTABLE

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        """Refuse foreign triggers and views: a trigger could drop charges, and a view could hide them."""
        if not set(connection.execute(_SCHEMA)) <= _schema():
            raise DataError(
                f"The tables of the ledger {self._shown} were changed, or have triggers that ellipsum did not create. "
                "Nothing was published."
            )

    @contextmanager
    def _translate_errors(self, what: str) -> Iterator[None]:
        """Replace errors of the database by `DataError`. A ledger holds no data, so their texts may be shown."""
        reason = None
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            if isinstance(error, DataError):
                raise
            reason = str(getattr(error, "strerror", None) or error)
        if reason is not None:
            raise DataError(f"The ledger {self._shown} could not be {what}: {visible(reason)}. Nothing was published.")


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Wait for other processes that open the same new file, since SQLite does not wait here."""
    deadline = time.monotonic() + _WAIT_MS / 1000
    while connection.execute("pragma journal_mode").fetchone() != ("wal",):
        try:
            connection.execute("pragma journal_mode = wal")
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


@cache
def _schema() -> frozenset[Row]:
    """The tables, indices and triggers of a ledger."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for text in (*TABLES, *_TRIGGERS):
            connection.execute(text)
        return frozenset(connection.execute(_SCHEMA))


def _close(connection: sqlite3.Connection, pid: int) -> None:
    """Close a connection of this process; the last one writes the log into the file."""
    if pid == os.getpid():
        with suppress(sqlite3.Error):
            connection.close()
