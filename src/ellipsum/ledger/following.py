"""From entry to entry: the chain, the sums and the columns, up to wherever one is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from .chain import ORIGIN, Follower, bad
from .store import Row, Transaction
from .totals import Tally

_ENTRIES = "select number, body, digest, dataset, what, analyst, key, of from ellipsum_entries"
Anchor = tuple[int, str]


class Found(NamedTuple):
    """What was found on the way: the state at its end, whether the wanted anchor was met, the digests of plans."""

    state: list[Any]
    held: bool
    plans: list[str]


class Following:
    """What is known after an entry; `held` says whether the wanted anchor was met."""

    def __init__(self, wanted: Anchor | None) -> None:
        self.wanted = wanted
        self.held = wanted in (None, (0, ORIGIN))
        self.chain = Follower()
        self.tally = Tally()

    @staticmethod
    def said_at(transaction: Transaction, number: int, wanted: Anchor | None) -> Following:
        """What would be known after an entry if those up to it are good, which somebody else has to check."""
        here = Following(wanted)
        ((last,),) = transaction.run("select digest from ellipsum_entries where number = ?", [number])
        here.chain.number, here.chain.last = number, str(last)
        here.tally = Tally.said_at(transaction, number)
        return here

    @property
    def state(self) -> list[Any]:
        return [self.chain.number, self.chain.last, self.tally.digest]

    @property
    def found(self) -> Found:
        return Found(self.state, self.held, sorted(self.tally.plans))

    def on(self, transaction: Transaction, last: int | None = None) -> None:
        """Follow the entries after this one, to the last of all or to a number."""
        take, count, sought = self.chain.take, self.tally.take, self.wanted or (None, None)
        for number, body, own, dataset, what, analyst, key, of in self._rows(transaction, last):
            fields = take(number, body, own)
            said = fields.get
            same = dataset == said("dataset") and what == said("what") and of == said("of")
            if not (same and analyst == said("analyst") and key == said("key")):
                raise bad(number, "its columns are not those of its text")
            count(number, fields)
            if own == sought[1]:
                self.held = self.held or number == sought[0]

    def _rows(self, transaction: Transaction, last: int | None) -> Iterator[Row]:
        """In order; from the very first on with whatever stands before number 1."""
        limits = {"number > ?": self.chain.number or None, "number <= ?": last}
        given = {limit: value for limit, value in limits.items() if value is not None}
        where = f" where {' and '.join(given)}" if given else ""
        return transaction.each(f"{_ENTRIES}{where} order by number", list(given.values()))
