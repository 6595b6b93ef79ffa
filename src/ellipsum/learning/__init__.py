"""Rows of which only a magnitude is known: centre, scales, axes and radius, learned privately."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ..errors import UsageError, choice
from ..privacy import NEIGHBOURS, Budget
from ..release import Release
from ..rows import Unknown
from ..run import public_count, reading
from ..tables import Table
from ..people import People, people_of
from .finish import finish, learned_rows
from .methods import METHODS, prepare_for, slack_for
from .result import Learned
from .rounds import Round, Rounds

__all__ = ["METHODS", "Learned", "Round", "Rounds", "learn", "learn_from", "release_unknown"]


def learn(
    data: Any,
    rows: Unknown,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    method: str = "auto",
    neighbours: str = "replace",
    n: int | None = None,
    columns: list[str] | tuple[str, ...] | None = None,
    privacy_id: str | int | None = None,
    per_person: str | None = None,
    max_rows: int | None = None,
    rng: Any = None,
    threads: int | None = None,
    progress: Any = None,
    header: bool | None = None,
    **options: Any,
) -> Learned:
    """Learn centre and spread of the rows, spending the whole stated budget.

    Further keywords are the method's own: steps= and std= of "coinpress", steps= and clip_share= of "instance_optimal",
    steps= of "variance_aware". `ellipsum.mean` and `sum` take them too.

    `Learned.rows` is a `Normal` with the centre's error, for `ellipsum.mean`, `sum` and `plan` with a budget of
    their own. Data is read several times: a one-shot source is refused before anything is spent.

    Guarantee [L6]: everything in the result is `Learned.privacy`, for the relation in `neighbours`.
    """
    if not isinstance(rows, Unknown):
        raise UsageError(f"rows must be Unknown(magnitude) to be learned, got {type(rows).__name__}.")
    spend = Budget.of(epsilon=epsilon, delta=delta, budget=budget)
    prepare_for(method, options)
    choice("neighbours", neighbours, NEIGHBOURS)
    people = people_of(privacy_id, per_person, max_rows)
    with reading(data, columns, rows.columns, people, progress, header) as (table, tell):
        how = {"rng": rng, "threads": threads, "progress": tell}
        return learn_from(table, rows, spend, neighbours, n, method, people, options, **how)


def learn_from(
    table: Table,
    rows: Unknown,
    budget: Budget,
    neighbours: str,
    n: int | None,
    method: str,
    people: People | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
    **how: Any,
) -> Learned:
    """`learn` on an opened table, one row a person where there are people."""
    prepare = prepare_for(method, options)
    count = public_count(table, neighbours, n) if table.reopenable else n
    rounds = _rounds(table, budget, neighbours, count, method, **how)
    final = prepare(rounds, rows.magnitude)
    release = finish(rounds, final, "mean", table.columns, method)
    errors = release.noise.ellipsoid.unscale
    known = learned_rows(release.plan.ellipsoid, final.std, release.value, errors, table.columns)
    learned = Learned(known, rounds.privacy, tuple(rounds.history), method, dict(budget.stated), rounds.secure)
    return learned if people is None else learned.of_people(people.to_dict())


def release_unknown(
    statistic: str,
    table: Table,
    rows: Unknown,
    budget: Budget,
    neighbours: str,
    n: int | None,
    *,
    method: str = "auto",
    rng: Any = None,
    threads: int | None = None,
    progress: Any = None,
    **options: Any,
) -> Release:
    """`ellipsum.sum` and `ellipsum.mean` of Unknown rows: learn, then release with all that is left [L7]."""
    prepare = prepare_for(method, options)
    rounds = _rounds(table, budget, neighbours, n, method, rng=rng, threads=threads, progress=progress)
    return finish(rounds, prepare(rounds, rows.magnitude), statistic, table.columns, method)


def _rounds(table: Table, budget: Budget, neighbours: str, n: int | None, method: str, **how: Any) -> Rounds:
    return Rounds(table, budget, neighbours, n, slack=slack_for(method, budget, neighbours), **how)
