"""A ledger in PostgreSQL: writers take the table one after another."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

from ..errors import DataError, EllipsumError, UsageError
from .postgresql_schema import ACTING, REFUSES, as_made
from .store import TABLES, Row

_LOST = (
    "the ledger's server could not be reached, or refused. A reservation that it had taken by then stays charged. "
    "Nothing was published."
)
_KEPT = (
    f"create or replace function ellipsum_kept() returns trigger language plpgsql as $${REFUSES}$$",
    "drop trigger if exists ellipsum_kept on ellipsum_entries",
    "create trigger ellipsum_kept before update or delete or truncate on ellipsum_entries "
    "for each statement execute function ellipsum_kept()",
)
_CHANGED = (
    "the tables of the ledger are not as they were made: somebody has changed them, or put triggers or rules on them. "
    "Nothing was published."
)
_CREATING = 0x656C6C73  # the lock that makers of tables take

_inherited: list[Any] = []
"""Connections of a parent process, which its child must neither use nor close."""


class _Transaction:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, text: str, values: Sequence[Any] = ()) -> list[Row]:
        with self._connection.cursor() as cursor:
            cursor.execute(_numbered(text), list(values) or None)
            return list(map(tuple, cursor.fetchall())) if cursor.description else []

    def each(self, text: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        with self._connection.cursor() as cursor:
            cursor.execute(_numbered(text), list(values) or None)
            for batch in cursor.fetch_record_batch():  # row by row it would take eight times as long
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


class PostgresqlStore:
    """The ledger on a server."""

    def __init__(self, url: str) -> None:
        try:
            from adbc_driver_postgresql import dbapi
        except ImportError:
            raise UsageError("PostgreSQL needs a driver. Install it with: pip install 'ellipsum[postgresql]'") from None
        self.address = url
        self._connect: Callable[[], Any] = lambda: dbapi.connect(url, autocommit=False)
        self._lock = threading.RLock()
        self._connection: Any = None
        self._pid = os.getpid()

    def create(self) -> None:
        with self._transaction(f"select pg_advisory_xact_lock({_CREATING})") as transaction:
            for text in (*TABLES, *_KEPT):
                transaction.run(text)

    @contextmanager
    def writing(self) -> Iterator[_Transaction]:
        with self._transaction("lock table ellipsum_entries in share row exclusive mode") as transaction:
            _check_schema(transaction)
            yield transaction

    @contextmanager
    def reading(self) -> Iterator[_Transaction]:
        with self._transaction("set transaction isolation level repeatable read, read only") as transaction:
            _check_schema(transaction)
            yield transaction

    @contextmanager
    def _transaction(self, first: str) -> Iterator[_Transaction]:
        """Whole or not at all; the connection is kept for the next one, unless this one failed."""
        lost = False
        with self._lock:
            try:
                transaction = self._begun(first)
                yield transaction
                self._connection.commit()
            except EllipsumError:
                self._drop()
                raise
            except Exception:  # a driver's texts may tell the address
                self._drop()
                lost = True
            except BaseException:
                self._drop()
                raise
        if lost:
            raise DataError(_LOST)

    def _begun(self, first: str) -> _Transaction:
        """A transaction after its first statement: on the kept connection, or where that is dead on a new one."""
        if self._connection is not None and self._pid != os.getpid():
            _inherited.append(self._connection)
            self._connection = None
        if self._connection is not None:
            try:
                return self._run_first(first)
            except Exception:
                self._drop()
        self._connection, self._pid = self._connect(), os.getpid()
        weakref.finalize(self, _close, self._connection, self._pid)
        return self._run_first(first)

    def _run_first(self, first: str) -> _Transaction:
        transaction = _Transaction(self._connection)
        transaction.run(first)
        return transaction

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        with suppress(Exception):  # of a connection that was lost
            connection.rollback()
        _close(connection, self._pid)


def _check_schema(transaction: _Transaction) -> None:
    """Nothing else may act on the tables: a trigger or a rule could swallow charges, a view could hide them."""
    if not set(transaction.run(ACTING)) <= as_made():
        raise DataError(_CHANGED)


def _close(connection: Any, pid: int) -> None:
    if pid == os.getpid():
        with suppress(Exception):  # of a connection that was lost, or closed before
            connection.close()


def _numbered(text: str) -> str:
    """Question marks as $1, $2, ..."""
    numbers = count(1)
    return "".join(f"${next(numbers)}" if letter == "?" else letter for letter in text)
