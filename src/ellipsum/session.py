"""The one door to noise: a session reads one source, and gives noise only for a guarantee that it has recorded.

[U5] Whatever a session's streams touch is charged to an account before it is read, and an account gives no more than
it reserved. Nothing else in the house opens a stream; a test holds it to that.
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
from .privacy.guarantee import HasPair, Privacy, fits
from .request.documentation import LEDGER
from .request.people import People
from .row_maps.maps import RowMap
from .sources import Selection, Source, open_source
from .sources.progress import Progress, share, steps
from .sources.selection import as_names
from .util import json_codec

if TYPE_CHECKING:
    from .ledger import DatasetAccount, LedgerCharge
    from .request.groups import Groups, Listed
    from .sources.group_sums import GroupSums

__all__ = ["Account", "Approve", "Outline", "Progress", "Reading", "Session", "tab_of"]

Made = TypeVar("Made", bound="HasJson")
Approve = Callable[[Any], None]
_GROUPING = 0.8  # share of the work that bringing people's rows together is, for progress


@dataclass(frozen=True)
class Reading:
    """How a session reads, and where it is charged: words of every call."""

    rng: np.random.Generator | None = None
    threads: int | None = None
    progress: Progress | None = None
    approve: Approve | None = None
    tab: DatasetAccount | None = None
    """The account that the call is charged to."""

    def __post_init__(self) -> None:
        check_rng(self.rng)
        if self.threads is not None:
            whole("threads", self.threads)
        if self.progress is not None and not callable(self.progress):
            raise UsageError(f"progress must be a function of one number, got {type(self.progress).__name__}.")
        if self.approve is not None and not callable(self.approve):
            raise UsageError(f"approve must be a function of one plan, got {type(self.approve).__name__}.")


_USUAL = Reading()


def tab_of(
    ledger: Any, dataset: str | None, key: str | None = None, analyst: str | None = None
) -> DatasetAccount | None:
    """The account behind the words of a call, or behind the environment's; None where there is no ledger.

    Nothing of ledgers is imported then.
    """
    if ledger is None and dataset is None and key is None and analyst is None and not os.environ.get(LEDGER):
        return None
    from .ledger import account_for_call

    return account_for_call(ledger, dataset, key, analyst)


class HasJson(Protocol):
    """What can be published, and kept."""

    def to_json(self) -> str: ...


@dataclass(frozen=True)
class Outline:
    """What a ledger is told of a release: the budget as stated, and its public numbers."""

    stated: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return dict(self.facts)


class Repeated(Exception):
    """The ledger has this release under its key; nothing is read."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class Account:
    """What was reserved for one release; its rounds are charged against it, by the filter of [P5]."""

    def __init__(self, cap: Privacy, rng: np.random.Generator | None) -> None:
        self.cap = cap
        self._rng = rng
        self._charged: list[Privacy] = []
        self._streams = 0

    def charge(self, part: Privacy, note: str) -> None:
        """Enter a part, or refuse it before anything of it is read; parts may be chosen on the way [P5]."""
        if not fits(self.cap, [*self._charged, part]):
            raise BudgetRefused(f"{note} asks for more than is left of what was reserved. Nothing of it was read.")
        self._charged.append(part)

    def stream(self) -> Stream:
        """Fresh noise: one stream for each part that was charged."""
        if self._streams >= len(self._charged):
            raise BudgetRefused("noise is given for what was charged, once. Charge a part first.")
        self._streams += 1
        return Stream.open(self._rng)


class Session:
    """One source, how it is read, and the accounts of what is spent on it."""

    def __init__(self, source: Source, people: People | None = None, reading: Reading | None = None) -> None:
        how = reading or _USUAL
        self.source = source
        self.people = people
        self.secure = how.rng is None
        self.threads = how.threads
        self.progress = how.progress
        self._rng = how.rng
        self._approve = how.approve
        self._tab = how.tab
        self._reserved: LedgerCharge | None = None
        self._columns: tuple[str | int, ...] | None = None
        self._opened = source
        """The rows as they were opened, before those of people were brought together."""

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
        how = reading or _USUAL
        if grouping is not None:
            selection = replace(selection, by=grouping.by, labels=grouping.labels)
        with np.errstate(all="ignore"):  # a warning would tell of the cells; what the caller set is not for them
            if people is None:
                source = opened = open_source(data, selection)
            else:
                opened = open_source(data, replace(selection, key=people.privacy_id))
                source = _grouped(opened, people, how.progress, grouping)
                how = replace(how, progress=share(how.progress, _GROUPING, 1.0))
            try:
                session = cls(source, people, how)
                session._columns = _picked(selection)
                session._opened = opened
                yield session
            finally:
                source.close()

    @property
    def proposing(self) -> bool:
        """Whether somebody asked to see plans."""
        return self._approve is not None

    @contextmanager
    def everyone(self) -> Iterator[Source]:
        """The rows that are read for all groups together: of people one each, whatever groups they are in [G8]."""
        if self.people is None:
            yield self.source
            return
        source = self._opened.grouped(self.people)
        try:
            yield source
        finally:
            source.close()

    @property
    def rereadable(self) -> bool:
        """Whether rows can be read several times, people's of all groups too."""
        return self.source.reopenable and (not self.source.by or self._opened.reopenable)

    @property
    def counts_first(self) -> bool:
        """Whether a public number of rows is checked before the charge, which no ledger takes back."""
        return self._tab is not None and self.source.reopenable

    def propose(self, plan: Any) -> None:
        """Show the plan to whoever asked to see it, before any value is read; an exception of theirs ends the call."""
        if self._approve is not None:
            self._approve(plan)

    def reserve(self, guarantee: Privacy | HasPair, note: str, plan: Any = None) -> Account:
        """Reserve a guarantee for one release, in the ledger too, before anything is read [U5][Q1].

        plan: has the budget as stated, and its public numbers in `to_dict`.
        """
        if self._tab is not None:
            self._reserve(self._tab, guarantee, note, plan or Outline())
        return Account(guarantee.as_pair(), self._rng)

    def _reserve(self, tab: DatasetAccount, guarantee: Any, note: str, plan: Any) -> None:
        from .ledger import ChargeRequest

        whose = None if self.people is None else self.people.identity
        plan_text = json_codec.dump(plan.to_dict())
        reserved = tab.reserve(ChargeRequest(note, guarantee, dict(plan.stated), whose, plan_text, self._columns))
        if reserved.stored is not None:
            raise Repeated(reserved.stored)
        self._reserved = reserved

    def kept(self, run: Callable[[], Made], read: Callable[[str], Made]) -> Made:
        """What `run` makes, entered in the ledger; or, for the same key again, what was made then, as `read` has it."""
        try:
            fresh = run()
        except Repeated as earlier:
            earlier_release: Any = read(earlier.text)
            stored: Made = replace(earlier_release, stored=True)
            return stored
        return self.settled(fresh)

    def settled(self, made: Made) -> Made:
        """A release that was made, entered as such in the ledger."""
        if self._tab is not None and self._reserved is not None:
            self._tab.settle(self._reserved, made.to_json())
        return made

    def spend(self, guarantee: Privacy | HasPair, note: str, plan: Any = None) -> Stream:
        """Reserve and charge a guarantee in one step: the noise of a release that has a single round."""
        account = self.reserve(guarantee, note, plan)
        account.charge(account.cap, note)
        return account.stream()

    def seed(self) -> bytes:
        """Fresh randomness that is no noise: a matrix, a rotation, a subset, an order."""
        return public_seed(self._rng)

    def total(
        self, row_map: RowMap, public: bool, progress: Progress | None = None, source: Source | None = None
    ) -> Partial:
        """The exact sum of a row map over the source; public: whether the number of rows may show in progress [T4].

        source: rows that are read for all groups together.
        """
        heard = progress or self.progress
        if heard is None:
            return (source or self.source).total(row_map, self.threads)
        with steps(heard, public) as tell:
            return (source or self.source).total(row_map, self.threads, tell)

    def total_by(
        self,
        row_map: RowMap,
        keys: Listed | None,
        public: bool,
        progress: Progress | None = None,
    ) -> GroupSums:
        """The exact sums of a row map in each group: those listed, or all that occur."""
        with steps(progress or self.progress, public) as tell:
            return self.source.total_by(row_map, keys, self.threads, tell)

    def public_count(self, neighbors: str, n: int | None) -> int | None:
        """The n that a plan may use: counted under "replace", the caller's guess under "add_remove"."""
        if neighbors != "replace":
            return n
        count = self.source.count()
        if count == 0:
            raise UsageError("the data has no rows. Use neighbors='add_remove' if that may happen: n is private there.")
        if n is not None and n != count:
            raise UsageError(f"n is {n} but the data has {count} rows. Under 'replace' n is counted: leave it out.")
        return count


def _picked(selection: Selection) -> tuple[str | int, ...] | None:
    """The columns that somebody picked, as a ledger tells requests apart by them."""
    picked = as_names(selection.columns)
    return None if picked is None else tuple(one if isinstance(one, str) else int(one) for one in picked)


def _grouped(source: Source, people: People, progress: Progress | None, grouping: Groups | None) -> Source:
    with steps(share(progress, 0.0, _GROUPING), public=False):  # how many rows people have is theirs
        if grouping is None:
            return source.grouped(people)
        return source.grouped_by(people, grouping.max_per_person, grouping.keys)
