"""`friendly_mean` and `subsample_and_aggregate`, and the rows that both read: all rows, or a random subset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import MOST_WHOLE, Floats, UsageError, positive, whole, yes_or_no
from ..errors import names as column_names
from ..noise import public_permutation, public_subset
from ..numerics.wide_integers import Ints
from ..privacy.budget import Budget
from ..request.documentation import public
from ..request.people import ONE_ROW, People, parse_people
from ..rows import Normal
from ..session import Progress, Session, read_options
from ..sources import Selection
from .block_runner import BlockFunction, make_up_rows, run_blocks
from .core import MOST_ROWS
from .forecast import FriendlyGate, Radius, candidate_radii
from .plan import VectorSource, friendly_plan, require_replace
from .release import FriendlyRelease, NoCenter, read_friendly, run_friendly

if TYPE_CHECKING:
    from ..ledger import DatasetAccount

_USUAL_ROWS, _FRAME_ROWS, _USUAL_CELLS = 10_000, 1_000_000, 1 << 26
_MOST_WORKERS = 1024
_LONGEST_SECONDS = 1e7
_NO_ORDER = "{} no stable order for shuffle=False. Leave it out."  # [T9]


@public
def friendly_mean(
    data: Any,
    radius: Radius | Normal,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    gate: FriendlyGate | None = None,
    noise: str = "auto",
    neighbors: str = "replace",
    columns: list[str] | tuple[str, ...] | None = None,
    privacy_id: str | int | People | None = None,
    max_rows: int | None = None,
    rng: np.random.Generator | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    ledger: DatasetAccount | None = None,
    request_id: str | None = None,
) -> FriendlyRelease | NoCenter:
    """Release the differentially private mean of the rows' FriendlyCore, wherever it lies.

    Rows within `radius` of most other rows form the core; other rows have weight 0. No bounds are needed. Rows may hold
    any value: a row that is not finite, or lies beyond 2^53 radii, has weight 0 and still counts in n.

    Parameters
    ----------
    radius : float, (float, float) or Normal
        The largest distance of two typical rows; or (low, high), between which a power of sqrt(2) is found privately;
        or Normal rows, whose standard deviation gives the radius (their center is not used).
    gate : FriendlyGate, optional
        Options of the stability test.
    noise : {"auto", "gaussian", "knorm"}, default "auto"
        "knorm" has a Laplace test and a K-norm (L2) mean, and delta is only the failure probability of the test.
        "auto" takes the one with less noise.
    neighbors : {"replace"}, default "replace"
        Only "replace" is supported, since every weight depends on n.
    privacy_id : str, int or People, optional
        The column that identifies people. Each person's rows become one, their mean or sum.
    max_rows : int, optional
        Above this number of rows (or people) a random subset is used. By default 10,000, fewer for very long rows.

    Returns
    -------
    FriendlyRelease or NoCenter
        The mean, or `NoCenter` (false) if too few rows lie close together.

    Notes
    -----
    Privacy proof: [F5], [F7], [F8], [F12], for one replaced row, or person [T9].

    References
    ----------
    Tsfadia, Cohen, Kaplan, Mansour & Stemmer 2022 (FriendlyCore), with the changes of [F9].

    Examples
    --------
    >>> import numpy as np
    >>> import ellipsum as es
    >>> rows = 1e6 + np.arange(2000.0).reshape(-1, 2) % 3
    >>> release = es.friendly_mean(rows, 4.0, epsilon=1, delta=1e-6)
    >>> bool(np.abs(release.value - 1e6).max() < 3)
    True
    """
    require_replace(neighbors)
    people = parse_people(privacy_id, ONE_ROW)
    reading = read_options(rng, threads, progress, ledger, request_id)
    with Session.open(data, Selection(columns), people, reading) as session:
        some = some_rows(session, max_rows)
        plan = friendly_plan(
            some.vectors.used,
            session.source.width,
            candidate_radii(radius, session.source.width),
            Budget.of(epsilon, delta, budget).as_typed(),
            gate,
            noise=noise,
            vectors=some.vectors,
            columns=session.source.columns,
            people=people,
        )

        def run() -> FriendlyRelease | NoCenter:
            stream = session.spend(plan.privacy, "a friendly mean", plan)
            return run_friendly(plan, some.read(), stream, threads, session.progress)

        return session.run_or_load_stored(run, read_friendly)


@public
def subsample_and_aggregate(
    function: BlockFunction,
    data: Any,
    *,
    blocks: int,
    radius: Radius | Normal,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    dimension: int | None = None,
    gate: FriendlyGate | None = None,
    noise: str = "auto",
    neighbors: str = "replace",
    columns: list[str] | tuple[str, ...] | None = None,
    privacy_id: str | int | People | None = None,
    names: Sequence[str] | None = None,
    shuffle: bool = True,
    workers: int | None = None,
    time_limit: float = 60.0,
    max_rows: int | None = None,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
    ledger: DatasetAccount | None = None,
    request_id: str | None = None,
) -> FriendlyRelease | NoCenter:
    """Release a function of the rows privately: evaluate it on blocks, and release the core of the results.

    One row touches one block, so the guarantee is that of a FriendlyCore mean of the results, for any function.

    Parameters
    ----------
    function : callable
        Takes a block, a float64 array (rows, columns) with NaN for missing values, and returns a vector of length
        `dimension`. It runs in processes of its own. A block on which it raises, dies, hangs or returns something else
        is an outlier. Nothing but its block and random numbers may decide about its result, such as files or clocks.
    blocks : int
        The number of blocks.
    radius : float, (float, float) or Normal
        The largest distance of the results of two typical blocks; or a pair to search between, or Normal results.
    dimension : int, optional
        The length of the result, which is public. By default it comes from a dry run on made-up zeros and ones.
    gate : FriendlyGate, optional
        Options of the stability test.
    noise : {"auto", "gaussian", "knorm"}, default "auto"
        As in `friendly_mean`.
    neighbors : {"replace"}, default "replace"
        Only "replace" is supported.
    privacy_id : str, int or People, optional
        The column that identifies people. Each person's rows become one, and a block holds people.
    names : list of str, optional
        The names of the result's values.
    shuffle : bool, default True
        Deal rows to blocks at random and in random order. False keeps their order; only for arrays, tables in memory
        and files.
    workers : int, optional
        The number of processes. By default one per core.
    time_limit : float, default 60
        CPU seconds per block.
    max_rows : int, optional
        Above this number of rows a random subset is used. By default all rows, of a data frame of an engine 10^6.

    Returns
    -------
    FriendlyRelease or NoCenter
        The core of the results, or `NoCenter` (false) if too few blocks have results close together.

    Notes
    -----
    Privacy proof: [F10], and [T9] for people and sources without a stable row order. A ledger distinguishes requests by
    the name of the function, not by its code.

    References
    ----------
    Nissim, Raskhodnikova & Smith 2007 (sample and aggregate).

    Examples
    --------
    >>> import numpy as np
    >>> import ellipsum as es
    >>> rows = np.arange(4000.0).reshape(-1, 1) % 10
    >>> def median(block):
    ...     return np.median(block, axis=0)
    >>> release = es.subsample_and_aggregate(median, rows, blocks=80, radius=3, epsilon=4, delta=1e-6)
    >>> bool(abs(release.value[0] - 4.5) < 2)
    True
    """
    require_replace(neighbors)
    yes_or_no("shuffle", shuffle)
    count = whole("blocks", blocks, 1)
    limit = positive("time_limit", time_limit, "Pass CPU seconds per block.")
    if limit > _LONGEST_SECONDS:
        raise UsageError(f"time_limit must be at most {_LONGEST_SECONDS:g} seconds, got {limit:g}.")
    helpers = None if workers is None else whole("workers", workers, most=_MOST_WORKERS)
    people = parse_people(privacy_id, ONE_ROW)
    if people is not None and not shuffle:
        raise UsageError(_NO_ORDER.format("People have"))
    name = _name_function(function, request_id)
    with Session.open(
        data, Selection(columns), people, read_options(rng, None, progress, ledger, request_id)
    ) as session:
        if not shuffle and not session.source.ordered:
            raise UsageError(_NO_ORDER.format("The rows of this source have"))
        some = some_rows(session, max_rows, None if session.source.local else _FRAME_ROWS)
        n, unit, width = some.vectors.used, some.vectors.unit, session.source.width
        if count > min(n, MOST_ROWS):
            raise UsageError(
                f"blocks must be at most the number of {unit} and 2^20, got {count} for {n} {unit}. "
                "Each block needs a row, and most functions need many."
            )
        length = _dimension(function, dimension, max(1, n // count), width, limit)
        plan = friendly_plan(
            count,
            length,
            candidate_radii(radius, length),
            Budget.of(epsilon, delta, budget).as_typed(),
            gate,
            noise=noise,
            vectors=replace(some.vectors, function=name),
            columns=column_names("names", names, length),
            people=people,
        )
        parts = deal(n, count, session.seed() if shuffle else None)
        seed = session.seed()

        def run() -> FriendlyRelease | NoCenter:
            order = "" if shuffle else ", rows in order"
            note = f"subsample and aggregate of {name}{order}, {limit:g} seconds"
            stream = session.spend(plan.privacy, note, plan)
            rows = some.read()
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

        return session.run_or_load_stored(run, read_friendly)


def _name_function(function: BlockFunction, request_id: str | None) -> str:
    """The name of the function, by which a ledger distinguishes requests."""
    if not callable(function):
        raise UsageError(f"function must be callable, got {type(function).__name__}.")
    name = str(getattr(function, "__qualname__", type(function).__qualname__))
    if request_id is not None and "<lambda>" in name:
        raise UsageError("request_id needs a function with a name, since all lambdas have the same. Use def.")
    return name


def deal(n: int, blocks: int, seed: bytes | None) -> list[Ints]:
    """The rows of each block, in order without a seed, otherwise in the order of a uniform permutation.

    A function of n, the number of blocks and the seed [F10]. Sizes of blocks differ by at most one. Rows within a block
    are permuted too: where the source has no stable order, its order must not show in the block [T9].
    """
    order = np.arange(n) if seed is None else public_permutation(seed, n)
    return np.array_split(order, blocks)


def _dimension(function: BlockFunction, dimension: int | None, rows: int, columns: int, limit: float) -> int:
    """The public length of the function's result: as passed, or from a dry run on made-up rows."""
    if dimension is not None:
        return whole("dimension", dimension)

    def size(block: Floats) -> int:
        return int(np.asarray(function(block), np.float64).size)

    length = run_blocks(size, [make_up_rows(rows, columns)], 1, workers=1, time_limit=limit)[0, 0]
    if not length >= 1:
        raise UsageError(
            "Missing argument dimension: the function failed on made-up rows, so the length of its result is unknown. "
            "Pass dimension=, the length of the vector that the function returns."
        )
    return int(length)


@dataclass(frozen=True)
class SomeRows:
    """Rows of a source that were counted, and are read later."""

    vectors: VectorSource
    load: Callable[[], Floats]

    def read(self) -> Floats:
        """The rows; an error if their number has changed since they were counted."""
        rows = self.load()
        if len(rows) != self.vectors.used:
            raise UsageError(f"The data had {self.vectors.used} rows when they were counted, and now has {len(rows)}.")
        return rows


def some_rows(session: Session, max_rows: int | None, usual: int | None = _USUAL_ROWS) -> SomeRows:
    """All rows, or a random subset of public size [F7]. A one-shot iterator is held, since it can be counted once.

    usual: the largest number of rows without `max_rows`, fewer for very long rows; None for all rows.
    """
    source, seed, most = session.source, session.seed(), MOST_WHOLE
    if max_rows is not None:
        most = whole("max_rows", max_rows, most=MOST_ROWS)
    elif usual is not None:
        most = min(usual, max(1000, _USUAL_CELLS // source.width))
    unit = "rows" if session.people is None else "people"
    if source.reopenable:
        total = source.count()
        vectors = VectorSource(min(most, total), total, unit)
        return SomeRows(vectors, lambda: source.every() if most == MOST_WHOLE else source.sample(most, seed)[0])
    every = source.every()
    rows = every[public_subset(seed, len(every), min(most, len(every)))]
    return SomeRows(VectorSource(len(rows), len(every), unit), lambda: rows)
