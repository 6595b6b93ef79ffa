"""Whether a ledger is as it was written: its entries, their sums, and what is kept beside them [Q2]."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from ..errors import DataError
from ..kernels.accumulate import default_threads
from .ahead import Ahead
from .chain import anchor_of, bad, digest, parsed_anchor
from .following import Anchor, Following, Found
from .store import Store, Transaction
from .totals import Tally

MANY = 100_000
"""From so many entries on a second process is worth its start."""
_ROLLED_BACK = (
    "the ledger does not hold the anchor: it was rolled back, replaced by another copy, or rewritten. "
    "What was released since then is missing from it."
)
_RESULTS = "select r.number, r.body, e.body from ellipsum_results r left join ellipsum_entries e on e.number = r.number"
_MISSING = (
    "select s.number from ellipsum_entries r join ellipsum_entries s on s.of = r.number where r.key is not null "
    "and not exists (select 1 from ellipsum_results k where k.number = s.number) order by s.number limit 1"
)
_ODD_INDEX = "the ledger's indices do not find what its entries hold: the file is damaged, or was tampered with."


def verify(store: Store, anchor: str | None) -> str:
    """The anchor at the end; an error that names the first bad entry, or where an earlier anchor is not held."""
    wanted = None if anchor is None else parsed_anchor(anchor)
    with store.reading() as transaction, _uncollected():
        (number, last, tally), held, plans = _followed(store, transaction, wanted)
        if not held:
            raise DataError(_ROLLED_BACK)
        if Tally.said_at(transaction, number).digest != tally:
            raise DataError(_ODD_INDEX)
        _check_plans(transaction, set(plans))
        _check_results(transaction)
    return anchor_of(number, last)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without searches for circles, of which entries have none: a fourth of the time for a million of them."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _followed(store: Store, transaction: Transaction, wanted: Anchor | None) -> Found:
    """What is found on the way to the last entry."""
    here = Following(wanted)
    ((count, last),) = transaction.run("select count(*), max(number) from ellipsum_entries")
    if count == last and count >= MANY and default_threads() > 1:
        middle = last * 13 // 25  # the other one has to start first
        with closing(Ahead(store.address, middle, last, wanted)) as ahead:
            here.on(transaction, middle)
            found = ahead.answer(here.state)
        if found is not None and found.state[0] == last:
            return Found(found.state, found.held or here.held, [*here.tally.plans, *found.plans])
    here.on(transaction)
    return here.found


def _check_plans(transaction: Transaction, wanted: set[str]) -> None:
    """Plans are those whose digests the entries hold."""
    for own, body in transaction.each("select digest, body from ellipsum_plans"):
        if not _is_of(body, own):
            raise DataError("a plan that is kept beside the entries was changed after it was written.")
        wanted.discard(own)
    if wanted:
        raise DataError("a plan that was kept beside the entries is missing.")


def _check_results(transaction: Transaction) -> None:
    """Every release that was given a key is stored, and is the one that its entry is of."""
    for number, body, entry in transaction.each(_RESULTS):
        if entry is None or not _is_of(body, json.loads(entry).get("release")):
            raise bad(int(number), "the release that is stored for it was changed")
    for (number,) in transaction.run(_MISSING):
        raise bad(int(number), "the release that was stored for it is missing")


def _is_of(body: Any, own: Any) -> bool:
    return isinstance(body, str) and digest(body) == own
