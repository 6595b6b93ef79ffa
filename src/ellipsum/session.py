"""The one door to noise: a session reads one source, and gives noise only for a guarantee that it has recorded.

[U5] Everything that a session's streams touch is charged to an account before any row is read, and an account gives
no more than it reserved. Nothing else in the house opens a stream; a test holds it to that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .accumulate import Partial
from .errors import BudgetRefused, Floats
from .noise import Stream, public_seed
from .privacy import HasPair, Privacy, fits
from .row_maps import RowMap
from .sources import Selection, Source, open_source
from .tables.base import share
from .people import People

Progress = Callable[[float], None]
Approve = Callable[[Any], None]
_GROUPING = 0.8  # share of the work that bringing people's rows together is, for progress


class Account:
    """What was reserved for one release; its rounds are charged against it, by the filter of [P5]."""

    def __init__(self, cap: Privacy, rng: np.random.Generator | None) -> None:
        self.cap = cap
        self._rng = rng
        self._charged: list[Privacy] = []

    def spend(self, part: Privacy, note: str) -> Stream:
        """Charge a part, or refuse it, and give it noise; parts may be chosen on the way [P5]."""
        if not fits(self.cap, [*self._charged, part]):
            raise BudgetRefused(f"{note} asks for more than is left of what was reserved. Nothing of it was read.")
        self._charged.append(part)
        return Stream.open(self._rng)


class Session:
    """One source, its readers' settings, and the accounts of what is spent on it."""

    def __init__(
        self,
        source: Source,
        *,
        people: People | None = None,
        rng: np.random.Generator | None = None,
        threads: int | None = None,
        progress: Progress | None = None,
        approve: Approve | None = None,
    ) -> None:
        self.source = source
        self.people = people
        self.secure = rng is None
        self.threads = threads
        self.progress = progress
        self._rng = rng
        self._approve = approve

    @classmethod
    @contextmanager
    def open(
        cls,
        data: Any,
        selection: Selection,
        *,
        rng: np.random.Generator | None = None,
        threads: int | None = None,
        progress: Progress | None = None,
        approve: Approve | None = None,
    ) -> Iterator[Session]:
        """A session on the rows that a selection takes of `data`: one row for each person where it names people [T6]."""
        source = open_source(data, selection)
        people, tell = selection.people, progress
        try:
            if people is not None:
                source = source.grouped(people, progress and share(progress, 0.0, _GROUPING))
                tell = progress and share(progress, _GROUPING, 1 - _GROUPING)
            yield cls(source, people=people, rng=rng, threads=threads, progress=tell, approve=approve)
        finally:
            source.close()

    def propose(self, plan: Any) -> None:
        """Show the plan to whoever asked to see it, before any value is read; an exception of theirs ends it."""
        if self._approve is not None:
            self._approve(plan)

    def reserve(self, guarantee: Privacy | HasPair, note: str) -> Account:
        """Reserve a guarantee for one release, before anything is read."""
        return Account(guarantee.as_pair(), self._rng)

    def spend(self, guarantee: Privacy | HasPair, note: str) -> Stream:
        """Reserve and charge a guarantee in one step: the noise of a release that has a single round."""
        account = self.reserve(guarantee, note)
        return account.spend(account.cap, note)

    def seed(self) -> bytes:
        """Fresh randomness that is no noise: a matrix, a rotation, a subset, an order."""
        return public_seed(self._rng)

    def total(self, row_map: RowMap, progress: Progress | None = None) -> Partial:
        """The exact sum of a row map over the source."""
        return self.source.total(row_map, self.threads, progress or self.progress)

    def sample(self, size: int) -> tuple[Floats, int]:
        """A uniform subset of the rows, and how many there are."""
        return self.source.sample(size, self.seed())
