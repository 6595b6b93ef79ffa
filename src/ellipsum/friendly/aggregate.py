"""Subsample and aggregate: ask a function about many blocks of rows, and publish where the answers agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import (
    MOST_WHOLE,
    Floats,
    UsageError,
    positive,
    whole,
    yes_or_no,
)
from ..errors import names as column_names
from ..noise import public_permutation
from ..privacy.budget import Budget
from ..request.documentation import public
from ..request.people import people_of
from ..rows import Normal
from ..session import Approve, Progress, Reading, Session, tab_of
from ..sources import Selection
from .block_runner import make_up_rows, run_blocks
from .core import MOST_ROWS
from .plan import FriendlyGate, friendly_plan, require_replace
from .release import (
    FriendlyRelease,
    NoCenter,
    SomeRows,
    check_count,
    counted_rows,
    planned_radius,
    read_friendly,
    run_friendly,
    some_rows,
)

_MOST_WORKERS = 1024
_LONGEST = 1e7  # seconds
_FRAME_ROWS, _FRAME_CELLS = 1_000_000, 1 << 26


@public
def subsample_and_aggregate(
    function: Callable[[Floats], Any],
    data: Any,
    *,
    blocks: int,
    radius: float | tuple[float, float] | Normal,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    dimension: int | None = None,
    gate: FriendlyGate | None = None,
    noise: str = "auto",
    neighbors: str = "replace",
    columns: list[str] | tuple[str, ...] | None = None,
    privacy_id: str | int | None = None,
    per_person: str | None = None,
    max_rows_per_person: int | None = None,
    names: Sequence[str] | None = None,
    shuffle: bool = True,
    workers: int | None = None,
    time_limit: float = 60.0,
    max_rows: int | None = None,
    header: bool | None = None,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
    approve: Approve | None = None,
    ledger: Any = None,
    dataset: str | None = None,
    key: str | None = None,
    analyst: str | None = None,
) -> FriendlyRelease | NoCenter:
    """Publish function(rows) privately: run it on disjoint blocks, release the friendly mean of the results.

    function: takes a block, a float64 array (rows, columns) with NaN for missing entries, and returns a
        vector of length `dimension`. It runs in processes of its own and cannot leak: a block on which it
        raises, dies, hangs or returns something else is an outlier among the others, no more.
        Its random numbers, from `random`, `numpy.random` or the operating system, are fresh for every block; beyond
        these and its block nothing may decide about its result, such as files, time or addresses in memory.
    dimension: the length of its result, which must be public. Unless stated, it is learned from a dry run
        on made-up rows of a block's shape, all zeros and ones; state it if those would not do.
    radius: how far apart the results of two typical blocks are at most, a pair to search, or Normal rows.
    shuffle: deal rows to blocks at random, independently of the data, and in random order; shuffle=False keeps their
        order, and is for arrays, tables in memory and plain files alone [T9].
    privacy_id: the column that names the person a row belongs to. Each person's rows become one, their mean, or with
        per_person="sum" the sum of at most max_rows_per_person of them, and a block holds people.
    max_rows: above this many rows a random subset is used, drawn independently of the data (all rows unless
        stated; of an engine's frame 10^6, or fewer where rows are very long).
    gate: `FriendlyGate(...)`: the law of the noise that decides whether there is a core, its share of the budget.
    noise: as in `ellipsum.friendly_mean`.
    time_limit: CPU seconds per block.
    names: what the result's entries are called.

    Guarantee: `privacy` of the result, for one replaced row [F10], of a source without places too, or person [T9].
    Edge cases: too few agreeing blocks give `NoCenter`; which blocks fail never decides whether the call
    succeeds.

    References: Nissim, Raskhodnikova & Smith 2007 (sample and aggregate).
    """
    require_replace(neighbors)
    yes_or_no("shuffle", shuffle)
    count = whole("blocks", blocks, 1)
    limit = positive("time_limit", time_limit, "State CPU seconds per block.")
    if limit > _LONGEST:
        raise UsageError(f"time_limit must be at most {_LONGEST:g} seconds, got {limit:g}.")
    helpers = None if workers is None else whole("workers", workers, most=_MOST_WORKERS)
    people = people_of(privacy_id, per_person, max_rows_per_person, cap="max_rows_per_person")
    if people is not None and not shuffle:
        raise _no_places("People have")
    reading = Reading(rng, progress=progress, approve=approve, tab=tab_of(ledger, dataset, key, analyst))
    with Session.open(data, Selection(columns, header=header), people, reading) as session:
        if not shuffle and not session.source.ordered:
            raise _no_places("The rows of this source have")
        some = _rows(session, max_rows)
        n, width = some.n, session.source.width
        what = "rows" if people is None else "people"
        if count > min(n, MOST_ROWS):
            raise UsageError(
                f"blocks must be at most the number of {what} and 2^20, got {count} for {n} {what}. "
                "Each block needs a row, and most functions need many."
            )
        length = _dimension(function, dimension, max(1, n // count), width, limit)
        plan = friendly_plan(
            count,
            length,
            planned_radius(radius, length),
            Budget.of(epsilon, delta, budget).as_typed(),
            gate,
            noise=noise,
            source="blocks" if some.total == n else f"blocks (of a random subset of {some.total} {what})",
            columns=column_names("names", names, length),
            people=people,
        )
        session.propose(plan)
        parts = deal(n, count, session.seed() if shuffle else None)
        seed = session.seed()

        def run() -> FriendlyRelease | NoCenter:
            stream = session.spend(plan.privacy, f"subsample and aggregate of {_called(function)}", plan)
            rows = some.read()
            check_count(n, len(rows))
            results = run_blocks(
                function,
                [rows[part] for part in parts],
                length,
                workers=helpers,
                time_limit=limit,
                seed=seed,
                progress=session.progress,
            )
            return run_friendly(plan, results, stream)

        return session.kept(run, read_friendly)


def _called(function: Any) -> str:
    """What a ledger calls a function: its name tells requests apart."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _no_places(whose: str) -> UsageError:
    """[T9]"""
    return UsageError(f"{whose} no order that may decide about blocks. Leave shuffle=False out.")


def _rows(session: Session, max_rows: int | None) -> SomeRows:
    """All rows, or a random subset of public size; and how many there are. [F7]"""
    if max_rows is None and session.source.local:
        return counted_rows(session, lambda seed: session.source.every(), MOST_WHOLE)
    usual = min(MOST_ROWS, _FRAME_ROWS, max(1000, _FRAME_CELLS // session.source.width))
    return some_rows(session, usual if max_rows is None else max_rows)


def deal(n: int, blocks: int, seed: bytes | None) -> list[np.ndarray]:
    """The rows of each block, sizes within one of each other: in order, or in that of a uniform permutation.

    A function of n, the number of blocks and the seed [F10]. A block's rows stand in the order of the permutation
    too: where rows have no places, their order in the source must not show in it [T9].
    """
    order = np.arange(n) if seed is None else public_permutation(seed, n)
    return np.array_split(order, blocks)


def _dimension(function: Callable[[Floats], Any], stated: int | None, rows: int, columns: int, limit: float) -> int:
    """The public length of the function's result: stated, or from a dry run on made-up rows."""
    if stated is not None:
        return whole("dimension", stated)

    def size(block: Floats) -> int:
        return int(np.asarray(function(block), np.float64).size)

    length = run_blocks(size, [make_up_rows(rows, columns)], 1, workers=1, time_limit=limit)[0, 0]
    if not length >= 1:
        raise UsageError(
            "dimension is missing, and function failed on made-up rows, from which it would be learned. "
            "State dimension=, the length of the vector that function returns."
        )
    return int(length)
