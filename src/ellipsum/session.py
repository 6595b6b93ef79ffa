"""The single entry point for noise: a session reads one source, and opens noise only for a charged guarantee.

[U5] Every expenditure is charged to an account before any value is read, and an account gives no more noise than it
reserved. No other module opens a noise stream, which a test checks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from .errors import BudgetRefused, UsageError, whole
from .kernels.accumulate import Partial
from .noise import Stream, check_rng, public_seed
from .privacy.guarantee import Privacy, PrivacyGuarantee, fits
from .request.documentation import LEDGER
from .request.people import People
from .row_maps.maps import RowMap
from .sources import Selection, Source, group_by_person, open_source
from .sources.protocol import Progress, report_steps, scale_progress
from .sources.selection import as_names
from .util import json_codec

if TYPE_CHECKING:
    from .ledger import DatasetAccount, LedgerCharge
    from .request.groups import Groups, Listed
    from .sources.group_sums import GroupSums

__all__ = ["Account", "Outline", "Progress", "Reading", "Session", "read_options"]

Made = TypeVar("Made", bound="HasJson")
_GROUPING = 0.8  # share of the work for grouping rows by person, for progress


@dataclass(frozen=True)
class Reading:
    """How a session reads, and the account that is charged."""

    rng: np.random.Generator | None = None
    threads: int | None = None
    progress: Progress | None = None
    ledger_account: DatasetAccount | None = None
    """The account that the call is charged to."""

    def __post_init__(self) -> None:
        check_rng(self.rng)
        if self.threads is not None:
            whole("threads", self.threads)
        if self.progress is not None and not callable(self.progress):
            raise UsageError(f"progress must be a function of one number, got {type(self.progress).__name__}.")


def read_options(
    rng: np.random.Generator | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    ledger: DatasetAccount | None = None,
    request_id: str | None = None,
) -> Reading:
    """Check the arguments of all public calls that say how a call is run."""
    return Reading(rng, threads, progress, _find_account(ledger, request_id))


def _find_account(ledger: DatasetAccount | None, request_id: str | None) -> DatasetAccount | None:
    """The account of the `ledger` argument. Without a ledger, no ledger module is imported."""
    if ledger is None and request_id is None and not os.environ.get(LEDGER):
        return None
    from .ledger import account_for_call

    if ledger is not None and not hasattr(ledger, "for_request"):
        raise UsageError(
            f"ledger must be the account of a data set, as in es.Ledger(address).dataset(name), "
            f"got {type(ledger).__name__}."
        )
    return account_for_call(ledger, request_id=request_id)


class Recorded(Protocol):
    """A plan as a ledger records it."""

    @property
    def stated(self) -> Mapping[str, float]: ...
    def to_dict(self) -> dict[str, Any]: ...


class HasJson(Protocol):
    """A result that a ledger can store."""

    def to_json(self) -> str: ...


@dataclass(frozen=True)
class Outline:
    """The record of a release in a ledger: the requested budget and public numbers."""

    stated: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return dict(self.facts)


class Repeated(Exception):
    """Raised where the ledger has stored this release under its request_id; nothing is read or charged."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class Account:
    """The guarantee that is reserved for one release; its steps are charged against it, by the filter of [P5]."""

    def __init__(self, cap: Privacy, rng: np.random.Generator | None) -> None:
        self.cap = cap
        self._rng = rng
        self._charged: list[Privacy] = []
        self._streams = 0

    def charge(self, part: Privacy, note: str) -> None:
        """Charge a step, or refuse it before anything is read; steps may depend on earlier results [P5]."""
        if not fits(self.cap, [*self._charged, part]):
            raise BudgetRefused(f"{note} requests more than the rest of the reserved budget. Nothing was read.")
        self._charged.append(part)

    def stream(self) -> Stream:
        """Open fresh noise: one stream for each charged step."""
        if self._streams >= len(self._charged):
            raise BudgetRefused("Every charged step has one noise stream. Charge another step first.")
        self._streams += 1
        return Stream.open(self._rng)


class Session:
    """A source, how it is read, and the accounts that are charged."""

    def __init__(self, source: Source, people: People | None = None, reading: Reading | None = None) -> None:
        how = reading or Reading()
        self.source = source
        self.people = people
        self.secure = how.rng is None
        self.threads = how.threads
        self.progress = how.progress
        self._rng = how.rng
        self._ledger_account = how.ledger_account
        self._reserved: LedgerCharge | None = None
        self._columns: tuple[str | int, ...] | None = None
        self._opened = source
        """The rows as they were opened, before they were grouped by person."""

    @classmethod
    @contextmanager
    def open(
        cls,
        data: Any,
        selection: Selection,
        people: People | None = None,
        reading: Reading | None = None,
        grouping: Groups | None = None,
    ) -> Iterator[Session]:
        """A session on the rows that a selection takes of `data`; with people, on one row for each person [T6].

        grouping: the groups that rows belong to; with people, on one row for each person and group [G4].
        """
        how = reading or Reading()
        if grouping is not None:
            selection = replace(selection, by=grouping.by, labels=grouping.labels)
        with np.errstate(all="ignore"):  # numpy's warnings would depend on private values
            if people is None:
                source = opened = open_source(data, selection)
            else:
                opened = open_source(data, replace(selection, key=people.privacy_id))
                source = _group_rows(opened, people, how.progress, grouping)
                how = replace(how, progress=scale_progress(how.progress, _GROUPING, 1.0))
            try:
                session = cls(source, people, how)
                session._columns = _selected_columns(selection)
                session._opened = opened
                yield session
            finally:
                source.close()

    @contextmanager
    def everyone(self) -> Iterator[Source]:
        """The rows that are read for all groups together: one for each person, whatever their groups [G8]."""
        if self.people is None:
            yield self.source
            return
        source = group_by_person(self._opened, self.people)
        try:
            yield source
        finally:
            source.close()

    @property
    def rereadable(self) -> bool:
        """Whether rows can be read several times, also by `everyone`."""
        return self.source.reopenable and (not self.source.by or self._opened.reopenable)

    @property
    def counts_first(self) -> bool:
        """Whether a public number of rows is checked before the charge, since a ledger never takes a charge back."""
        return self._ledger_account is not None and self.source.reopenable

    def reserve(self, guarantee: PrivacyGuarantee, note: str, plan: Recorded | None = None) -> Account:
        """Reserve a guarantee for one release, in the ledger too, before anything is read [U5][Q1].

        plan: gives the requested budget in `stated`, and public numbers in `to_dict`.
        """
        if self._ledger_account is not None:
            self._reserve(self._ledger_account, guarantee, note, plan or Outline())
        return Account(guarantee.as_pair(), self._rng)

    def _reserve(self, ledger_account: DatasetAccount, guarantee: PrivacyGuarantee, note: str, plan: Recorded) -> None:
        from .ledger import ChargeRequest

        identity = None if self.people is None else self.people.identity
        plan_text = json_codec.dump(plan.to_dict())
        request = ChargeRequest(note, guarantee, dict(plan.stated), identity, plan_text, self._columns)
        reserved = ledger_account.reserve(request)
        if reserved.stored is not None:
            raise Repeated(reserved.stored)
        self._reserved = reserved

    def run_or_load_stored(self, run: Callable[[], Made], read: Callable[[str], Made]) -> Made:
        """Run, and record the result in the ledger; for a repeated request_id, read the stored result instead."""
        try:
            result = run()
        except Repeated as repeated:
            stored: Any = read(repeated.text)
            again: Made = replace(stored, stored=True)
            return again
        return self.record_release(result)

    def record_release(self, result: Made) -> Made:
        """Record in the ledger that a charged release completed."""
        if self._ledger_account is not None and self._reserved is not None:
            self._ledger_account.settle(self._reserved, result.to_json())
        return result

    def spend(self, guarantee: PrivacyGuarantee, note: str, plan: Recorded | None = None) -> Stream:
        """Reserve and charge a guarantee, and open its noise, for a release with a single step."""
        account = self.reserve(guarantee, note, plan)
        account.charge(account.cap, note)
        return account.stream()

    def seed(self) -> bytes:
        """Draw a seed that may be published: for a matrix, a rotation, a subset or an order."""
        return public_seed(self._rng)

    def total(
        self, row_map: RowMap, public: bool, progress: Progress | None = None, source: Source | None = None
    ) -> Partial:
        """The exact sum of a row map over the source; public: whether the number of rows may show in progress [T4].

        source: rows that are read for all groups together.
        """
        with report_steps(progress or self.progress, public) as report:
            return (source or self.source).total(row_map, self.threads, report)

    def total_by(
        self,
        row_map: RowMap,
        keys: Listed | None,
        public: bool,
        progress: Progress | None = None,
    ) -> GroupSums:
        """The exact sums of a row map in each listed group, or in each group of the data."""
        with report_steps(progress or self.progress, public) as report:
            return self.source.total_by(row_map, keys, self.threads, report)

    def public_count(self, neighbors: str, n: int | None) -> int | None:
        """The number of rows for a plan: counted under "replace", the caller's guess under "add_remove"."""
        if neighbors != "replace":
            return n
        count = self.source.count()
        if count == 0:
            raise UsageError("The data has no rows. Use neighbors='add_remove' if that may happen: n is private there.")
        if n is not None and n != count:
            raise UsageError(f"n is {n:,}, but the data has {count:,} rows. Leave n out: 'replace' counts the rows.")
        return count


def _selected_columns(selection: Selection) -> tuple[str | int, ...] | None:
    """The columns in the caller's selection, which a ledger compares between requests."""
    picked = as_names(selection.columns)
    return None if picked is None else tuple(one if isinstance(one, str) else int(one) for one in picked)


def _group_rows(source: Source, people: People, progress: Progress | None, grouping: Groups | None) -> Source:
    with report_steps(
        scale_progress(progress, 0.0, _GROUPING), public=False
    ):  # the number of rows of a person is private
        if grouping is None:
            return group_by_person(source, people)
        return group_by_person(source, people, grouping.max_per_person, grouping.keys)
