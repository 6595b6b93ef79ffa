"""Where entries are kept: one protocol, and the address that says which database."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from ..errors import UsageError
from .entries import Transaction

_ADDRESS = "a ledger is a path, sqlite:///path or postgresql://user@host/name."


class Store(Protocol):
    """A database with a ledger in it."""

    def create(self) -> None:
        """Make the tables where there are none."""

    def writing(self) -> AbstractContextManager[Transaction]:
        """The only writer until it ends; on disk when it has ended, or not at all."""

    def reading(self) -> AbstractContextManager[Transaction]:
        """One state of the ledger."""


def open_store(url: str | Path) -> Store:
    """The database at an address: a path, sqlite:///path, or postgresql://user@host/name."""
    if isinstance(url, Path):
        url = str(url)
    if not isinstance(url, str) or not url or not _names_a_file(url):
        raise UsageError(_ADDRESS)
    scheme, mark, rest = url.partition("://")
    if not mark or (scheme == "sqlite" and rest.startswith("/") and len(rest) > 1):
        from .sqlite_store import SqliteStore

        return SqliteStore(rest[1:] if mark else os.path.expanduser(url))
    if scheme in ("postgresql", "postgres"):
        from .postgresql_store import PostgresqlStore

        return PostgresqlStore(url)
    raise UsageError(_ADDRESS)


def _names_a_file(url: str) -> bool:
    try:
        return b"\0" not in os.fsencode(url)
    except UnicodeEncodeError:
        return False
