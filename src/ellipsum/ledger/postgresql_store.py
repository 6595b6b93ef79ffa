"""A ledger in PostgreSQL: writers lock the table one after another."""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from itertools import count
from typing import Any

from ..errors import DataError, EllipsumError, UsageError
from .entries import TABLES, Row

_LOST = (
    "The ledger's server could not be reached, or refused. A charge that it had stored by then stays charged. "
    "Nothing was published."
)
_REFUSES = " begin raise exception 'entries are never changed or removed'; end "
"""Body of the trigger that refuses to change entries."""
_PROTECTION = (
    f"create or replace function ellipsum_kept() returns trigger language plpgsql as $${_REFUSES}$$",
    "drop trigger if exists ellipsum_kept on ellipsum_entries",
    "create trigger ellipsum_kept before update or delete or truncate on ellipsum_entries "
    "for each statement execute function ellipsum_kept()",
)
_CHANGED = (
    "The tables of the ledger were changed, or have triggers or rules that ellipsum did not create. "
    "Nothing was published."
)
_CREATING = 0x656C6C73  # The number of the lock for creating tables.

_inherited: list[Any] = []
"""Connections of a parent process, which a child must neither use nor close."""


class PostgresqlTransaction:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, text: str, values: Sequence[Any] = ()) -> list[Row]:
        with self._connection.cursor() as cursor:
            cursor.execute(_number_placeholders(text), list(values) or None)
            return list(map(tuple, cursor.fetchall())) if cursor.description else []

    def each(self, text: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        with self._connection.cursor() as cursor:
            cursor.execute(_number_placeholders(text), list(values) or None)
            for batch in cursor.fetch_record_batch():  # Eight times as fast as row by row.
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


class PostgresqlStore:
    """The ledger on a server."""

    def __init__(self, url: str) -> None:
        try:
            from adbc_driver_postgresql import dbapi
        except ImportError:
            raise UsageError("PostgreSQL needs a driver. Install it with: pip install 'ellipsum[postgresql]'") from None
        self._url = url
        self._connect: Callable[[], Any] = lambda: dbapi.connect(url, autocommit=False)
        self._lock = threading.RLock()
        self._connection: Any = None
        self._pid = os.getpid()

    def __reduce__(self) -> tuple[type[PostgresqlStore], tuple[str]]:  # Estimators copy their arguments.
        return PostgresqlStore, (self._url,)

    def create(self) -> None:
        with self._transaction(f"select pg_advisory_xact_lock({_CREATING})", is_new=True) as transaction:
            for text in (*TABLES, *_PROTECTION):
                transaction.run(text)

    def writing(self) -> AbstractContextManager[PostgresqlTransaction]:
        return self._transaction("lock table ellipsum_entries in share row exclusive mode")

    def reading(self) -> AbstractContextManager[PostgresqlTransaction]:
        return self._transaction("set transaction isolation level repeatable read, read only")

    @contextmanager
    def _transaction(self, first: str, is_new: bool = False) -> Iterator[PostgresqlTransaction]:
        """Commit all or nothing. The connection is used again, unless the transaction failed."""
        lost = False
        with self._lock:
            try:
                transaction = self._begin(first)
                if not (is_new or set(transaction.run(_SCHEMA_QUERY)) <= _expected_schema()):
                    raise DataError(_CHANGED)  # Foreign triggers, rules and views could drop charges or hide them.
                yield transaction
                self._connection.commit()
            except BaseException as error:
                self._drop()
                if isinstance(error, EllipsumError) or not isinstance(error, Exception):
                    raise
                lost = True  # The driver's messages may contain the address.
        if lost:
            raise DataError(_LOST)

    def _begin(self, first: str) -> PostgresqlTransaction:
        """A transaction after its first statement, on a new connection if the open one is lost."""
        if self._connection is not None and self._pid != os.getpid():
            _inherited.append(self._connection)
            self._connection = None
        if self._connection is not None:
            try:
                PostgresqlTransaction(self._connection).run(first)
            except Exception:
                self._drop()
        if self._connection is None:
            self._connection, self._pid = self._connect(), os.getpid()
            weakref.finalize(self, _close, self._connection, self._pid)
            PostgresqlTransaction(self._connection).run(first)
        return PostgresqlTransaction(self._connection)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        with suppress(Exception):  # The connection may be lost.
            connection.rollback()
        _close(connection, self._pid)


def _close(connection: Any, pid: int) -> None:
    if pid == os.getpid():
        with suppress(Exception):  # The connection may be lost or closed.
            connection.close()


def _number_placeholders(text: str) -> str:
    """Question marks as $1, $2, ..."""
    numbers = count(1)
    return "".join(f"${next(numbers)}" if letter == "?" else letter for letter in text)


_SCHEMA_QUERY = """
with tables as (
    select oid, relname from pg_class where oid in
    (to_regclass('ellipsum_entries'), to_regclass('ellipsum_plans'), to_regclass('ellipsum_results'))
)
select 'table', concat_ws(' ', c.relname, c.relkind, c.relpersistence, c.relrowsecurity)
    from pg_class c where c.oid in (select oid from tables)
union all select 'column', concat_ws(' ', t.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
    a.atthasdef, a.attgenerated <> '', a.attidentity <> '', a.attcollation in (0, 100))
    from pg_attribute a join tables t on t.oid = a.attrelid where a.attnum > 0 and not a.attisdropped
union all select 'trigger', concat_ws(' ', t.relname, g.tgname, g.tgtype, g.tgenabled, g.tgqual is null, p.prosrc)
    from pg_trigger g join tables t on t.oid = g.tgrelid join pg_proc p on p.oid = g.tgfoid where not g.tgisinternal
union all select 'rule', r.rulename::text from pg_rewrite r where r.ev_class in (select oid from tables)
union all select 'child', i.inhrelid::text from pg_inherits i
    where i.inhparent in (select oid from tables) or i.inhrelid in (select oid from tables)
union all select 'constraint', k.conname::text from pg_constraint k where k.contype not in ('p', 'n')
    and (k.conrelid in (select oid from tables) or k.confrelid in (select oid from tables))
"""
_TABLE = re.compile(r"create table if not exists (\w+) \((.*)\)")


@cache
def _expected_schema() -> frozenset[Row]:
    """The rows of `_SCHEMA_QUERY` for unchanged tables."""
    rows = {("trigger", f"ellipsum_entries ellipsum_kept 58 O t {_REFUSES}")}  # Before update, delete, truncate.
    for table, columns in (match.groups() for match in map(_TABLE.fullmatch, TABLES) if match is not None):
        rows.add(("table", f"{table} r p f"))
        for name, kind, *more in map(str.split, columns.split(", ")):
            rows.add(("column", f"{table} {name} {kind} {'t' if more else 'f'} f f f t"))
    return frozenset(rows)
