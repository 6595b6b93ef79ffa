"""`friendly_mean`, and the rows that FriendlyCore means are made of: all of a source's rows, or a random subset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import Floats, UsageError, whole
from ..noise import public_subset
from ..privacy.budget import Budget
from ..request.documentation import public
from ..request.people import ONE_ROW, People, parse_people
from ..rows import Normal
from ..session import Progress, Session, read_options
from ..sources import Selection
from .core import MOST_ROWS
from .plan import FriendlyGate, VectorSource, friendly_plan, require_replace
from .radius import Radius, candidate_radii
from .release import FriendlyRelease, NoCenter, read_friendly, run_friendly

if TYPE_CHECKING:
    from ..ledger import DatasetAccount

_USUAL_ROWS, _USUAL_CELLS = 10_000, 1 << 26


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


@dataclass(frozen=True)
class SomeRows:
    """Rows of a source that were counted and are not yet read."""

    vectors: VectorSource
    load: Callable[[], Floats]

    def read(self) -> Floats:
        """The rows; an error where rows came or went after they were counted."""
        rows = self.load()
        if len(rows) != self.vectors.used:
            raise UsageError(f"The data had {self.vectors.used} rows when they were counted, and now has {len(rows)}.")
        return rows


def some_rows(session: Session, max_rows: int | None) -> SomeRows:
    """All rows, or a random subset of public size, with how many there are [F7]."""
    usual = min(_USUAL_ROWS, max(1000, _USUAL_CELLS // session.source.width))
    most = usual if max_rows is None else whole("max_rows", max_rows)
    if most > MOST_ROWS:
        raise UsageError(f"max_rows must be at most {MOST_ROWS}, got {max_rows}: the work grows with its square.")
    return counted_rows(session, lambda seed: session.source.sample(most, seed)[0], most)


def counted_rows(session: Session, read: Callable[[bytes], Floats], most: int) -> SomeRows:
    """Rows that are read once their release is charged. A one-shot iterator is held, since it can be counted once."""
    seed = session.seed()
    unit = "rows" if session.people is None else "people"
    if session.source.reopenable:
        total = session.source.count()
        return SomeRows(VectorSource(min(most, total), total, unit), lambda: read(seed))
    every = session.source.every()
    rows = every[public_subset(seed, len(every), min(most, len(every)))]
    return SomeRows(VectorSource(len(rows), len(every), unit), lambda: rows)
