"""Where entries are kept: one protocol, and the address that says which database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

FORMAT = "ellipsum.ledger/1"
TABLES = (
    "create table if not exists ellipsum_entries (number integer primary key, dataset text not null, "
    "what text not null, analyst text, key text, of integer, body text not null, digest text not null)",
    "create table if not exists ellipsum_plans (digest text primary key, body text not null)",
    "create table if not exists ellipsum_results (number integer primary key, body text not null)",
    "create index if not exists ellipsum_by_dataset on ellipsum_entries (dataset, what, number)",
    "create index if not exists ellipsum_by_analyst on ellipsum_entries (dataset, analyst, number) "
    "where analyst is not null and what = 'reserved'",
    "create unique index if not exists ellipsum_by_key on ellipsum_entries (dataset, key) where key is not null",
    "create unique index if not exists ellipsum_by_reservation on ellipsum_entries (of) where of is not null",
)
Row = tuple[Any, ...]


class Transaction(Protocol):
    """What may be asked within a transaction; the placeholders are question marks."""

    def run(self, text: str, values: Sequence[Any] = ()) -> list[Row]: ...

    def each(self, text: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        """Row by row, for many."""


class Store(Protocol):
    """A database with a ledger in it."""

    @property
    def address(self) -> str:
        """Opens it again, in another process."""

    def create(self) -> None:
        """Make the tables where there are none."""

    def writing(self) -> AbstractContextManager[Transaction]:
        """The only writer until it ends; on disk when it has ended, or not at all."""

    def reading(self) -> AbstractContextManager[Transaction]:
        """One state of the ledger."""
