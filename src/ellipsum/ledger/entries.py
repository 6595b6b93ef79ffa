"""Entries of a ledger. Each holds the digest of the entry before it, so that a later change is detected [Q2]."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Protocol

from ..errors import MOST_WHOLE, DataError, EllipsumError, UsageError

FORMAT = "ellipsum.ledger/2"
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
ORIGIN = "0" * 64
"""The digest before the first entry."""
MALFORMED = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""Errors that reading an entry raises if ellipsum did not write it."""
_DAMAGED = "An entry of this ledger is damaged. Find it with: ellipsum ledger verify. Nothing was published."
_ANCHOR = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")
Row = tuple[Any, ...]
Entry = dict[str, Any]
"""The fields of an entry, from its JSON."""


class Transaction(Protocol):
    """Statements of one transaction. The placeholders of values are question marks."""

    def run(self, text: str, values: Sequence[Any] = ()) -> list[Row]: ...

    def each(self, text: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        """The rows one by one, for many rows."""


class Store(Protocol):
    """A database that holds a ledger."""

    def create(self) -> None:
        """Create the tables where they are missing."""

    def writing(self) -> AbstractContextManager[Transaction]:
        """A transaction of the only writer: when it ends, all of it is on disk, or none of it."""

    def reading(self) -> AbstractContextManager[Transaction]:
        """A transaction that sees one state of the ledger."""


def canonical(fields: Mapping[str, Any]) -> str:
    """The JSON of some fields; equal fields have equal texts."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def format_anchor(number: int, last: str) -> str:
    """The checkpoint hash: a short text that stands for every entry up to this one."""
    return f"{number}:{last}"


def parse_anchor(anchor: str) -> tuple[int, str]:
    parts = _ANCHOR.fullmatch(anchor.strip()) if isinstance(anchor, str) else None
    if parts is None:
        raise UsageError("An anchor is a number, a colon and 64 hexadecimal digits, as ellipsum ledger show prints it.")
    return int(parts[1]), parts[2]


def bad_entry(number: int, why: str) -> DataError:
    """The error that names the first entry that was not written by ellipsum, or was changed."""
    return DataError(f"Entry {number} is bad: {why}. The entries after it cannot be trusted.")


@contextmanager
def reading_entries() -> Iterator[None]:
    """Turn every error of a malformed entry into one message; `verify` names the entry."""
    try:
        yield
    except EllipsumError:
        raise
    except MALFORMED:
        raise DataError(_DAMAGED) from None


def read_fields(number: int, body: str, stored: str) -> Entry:
    """The fields of an entry, if its text has the digest that is stored beside it."""
    with reading_entries():
        if digest(body) != stored:
            raise bad_entry(number, "it was changed after it was written")
        fields: Entry = json.loads(body)
        return fields


def last_entry(transaction: Transaction) -> tuple[int, str]:
    """The number and the digest of the last entry."""
    rows = transaction.run("select number, digest from ellipsum_entries order by number desc limit 1")
    with reading_entries():
        number, own = (int(rows[0][0]), str(rows[0][1])) if rows else (0, ORIGIN)
    if number >= MOST_WHOLE:
        raise bad_entry(number, "its number is too large")
    return number, own


def append_entry(
    transaction: Transaction,
    what: str,
    dataset: str,
    fields: Mapping[str, Any],
    *,
    analyst: str | None = None,
    key: str | None = None,
    of: int | None = None,
) -> tuple[int, str]:
    """Write the next entry and return its number and digest. Numbers give the order, not clocks [Q2]."""
    number, before = last_entry(transaction)
    fields_set = {
        name: value for name, value in {"analyst": analyst, "key": key, "of": of}.items() if value is not None
    }
    columns = {**fields_set, "number": number + 1, "what": what, "dataset": dataset}
    body = canonical({**fields, **columns, "before": before, "at": read_clock()})
    own = digest(body)
    columns |= {"body": body, "digest": own}
    marks = ", ".join("?" for _ in columns)
    transaction.run(f"insert into ellipsum_entries ({', '.join(columns)}) values ({marks})", list(columns.values()))
    if transaction.run("select digest from ellipsum_entries where number = ?", [number + 1]) != [(own,)]:
        raise DataError("The ledger's database did not store a new entry. Nothing was published.")
    return number + 1, own


def read_clock() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
