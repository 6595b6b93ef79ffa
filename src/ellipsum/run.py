"""Plan + table -> release: the one place where they meet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from .accumulate import Partial
from .engines import EngineTable, accumulate_table
from .errors import Floats, UsageError, choice, whole
from .noise import Stream, add_noise, add_noise_exact, shift_for
from .plans import Noise, Plan
from .plans import plan as make_plan
from .privacy import NEIGHBOURS, Budget
from .release import Release
from .rows import Rows, Unknown
from .tables import Table, open_table
from .people import People, people_of
from .tables.grouping import gather
from .tables.progress import Progress, share, steps

P = TypeVar("P")
_GROUPING = 0.8  # of the work, for progress


def sum(
    data: Any,
    rows: Rows,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    neighbours: str = "replace",
    columns: list[str] | tuple[str, ...] | None = None,
    privacy_id: str | int | None = None,
    per_person: str | None = None,
    max_rows: int | None = None,
    n: int | None = None,
    rng: np.random.Generator | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    header: bool | None = None,
    **options: Any,
) -> Release:
    """Publish the sum of the rows.

    data is a numpy array, anything that speaks the Arrow stream protocol, a list of batches, or a path or
    glob of CSV, Parquet or Feather files; rows says what is known about a row. Further keywords are those
    of `ellipsum.plan`. privacy_id names the column that says whose a row is: each person's rows become one, their
    mean, or with per_person="sum" the sum of at most max_rows of them, and `rows` and n speak of people. header=True
    says that the first line of a CSV file names its columns although it holds numbers. rng is for tests and teaching:
    such a release is marked secure=False.

    Guarantee: [U1], `Release.privacy`, for the relation in `neighbours`.
    """
    spend = Budget.of(epsilon=epsilon, delta=delta, budget=budget)
    people = people_of(privacy_id, per_person, max_rows)
    return _release("sum", data, rows, spend, neighbours, columns, header, people, n, options, rng, threads, progress)


def mean(
    data: Any,
    rows: Rows,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    neighbours: str = "replace",
    columns: list[str] | tuple[str, ...] | None = None,
    privacy_id: str | int | None = None,
    per_person: str | None = None,
    max_rows: int | None = None,
    n: int | None = None,
    rng: np.random.Generator | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    header: bool | None = None,
    **options: Any,
) -> Release:
    """Publish the mean of the rows; arguments and guarantee as for `ellipsum.sum`."""
    spend = Budget.of(epsilon=epsilon, delta=delta, budget=budget)
    people = people_of(privacy_id, per_person, max_rows)
    return _release("mean", data, rows, spend, neighbours, columns, header, people, n, options, rng, threads, progress)


def _release(
    statistic: str,
    data: Any,
    rows: Rows,
    budget: Budget,
    neighbours: str,
    columns: list[str] | tuple[str, ...] | None,
    header: bool | None,
    people: People | None,
    n: int | None,
    options: dict[str, Any],
    rng: np.random.Generator | None,
    threads: int | None,
    progress: Progress | None,
) -> Release:
    if not isinstance(rows, Rows):
        raise UsageError(f"rows must be one of Ball, Box, Normal, Unknown, got {type(rows).__name__}.")
    choice("neighbours", neighbours, NEIGHBOURS)
    with reading(data, columns, rows.columns, people, progress, header) as (table, tell):
        release = _release_table(statistic, table, rows, budget, neighbours, n, options, rng, threads, tell)
    return of_people(release, people)


def _release_table(
    statistic: str,
    table: Table,
    rows: Rows,
    budget: Budget,
    neighbours: str,
    n: int | None,
    options: dict[str, Any],
    rng: np.random.Generator | None,
    threads: int | None,
    progress: Progress | None,
) -> Release:
    if isinstance(rows, Unknown):
        from .learning import release_unknown

        count = public_count(table, neighbours, n) if table.reopenable else n
        how = {"rng": rng, "threads": threads, "progress": progress, **options}
        return release_unknown(statistic, table, rows, budget, neighbours, count, **how)
    plan = make_plan(
        rows,
        n=public_count(table, neighbours, n),
        d=table.width,
        budget=budget,
        statistic=statistic,
        neighbours=neighbours,
        columns=table.columns,
        **options,
    )
    return run_on_table(plan, table, rng, threads, progress)


def open_for(
    data: Any,
    columns: Any,
    known: tuple[str, ...] | None,
    key: str | int | None = None,
    header: bool | None = None,
) -> Table:
    """The table to read: `columns` if the caller chose, else the known names where the source has names."""
    if columns is None and known is not None and not _nameless(data):
        return open_table(data, columns=known, key=key, header=header)
    return open_table(data, columns=columns, key=key, header=header)


@contextmanager
def reading(
    data: Any,
    columns: Any,
    known: tuple[str, ...] | None,
    people: People | None = None,
    progress: Progress | None = None,
    header: bool | None = None,
) -> Iterator[tuple[Table, Progress | None]]:
    """The table to read and what is left of the progress; where rows belong to people, one row a person [T6]."""
    if progress is not None and not callable(progress):
        raise UsageError(f"progress must be a function of one number, got {type(progress).__name__}.")
    if people is None:
        yield open_for(data, columns, known, header=header), progress
        return
    table = open_for(data, columns, known, people.privacy_id, header)
    grouped = one_row_a_person(table, people, share(progress, 0.0, _GROUPING))
    try:
        yield grouped, share(progress, _GROUPING, 1.0)
    finally:
        grouped.close()


def one_row_a_person(table: Table, people: People, progress: Progress | None = None) -> Any:
    """The table of people, made where the rows are; to be closed after use [T6]."""
    with steps(progress, public=False):  # how many rows people have is theirs
        return table.gather(people) if isinstance(table, EngineTable) else gather(table, people)


def of_people(release: Release, people: People | None) -> Release:
    """The release, whose plan and guarantee say what one row stood for."""
    if people is None:
        return release
    spent = None if release.privacy_spent is None else release.privacy_spent.for_people()
    return replace(release, plan=plan_of_people(release.plan, people), privacy_spent=spent)


def plan_of_people(plan: P, people: People | None) -> P:
    """A plan (of any kind) with a note, in its options, of what one row stands for."""
    if people is None:
        return plan
    some: Any = plan
    noted: P = replace(some, options=people.noted(some.options), privacy=some.privacy.for_people())
    return noted


def _nameless(data: Any) -> bool:
    first = data[0] if isinstance(data, (list, tuple)) and data else data
    return isinstance(first, np.ndarray)


def public_count(table: Table, neighbours: str, n: int | None) -> int | None:
    """The n that a plan may use: counted under replace, the caller's guess under add_remove."""
    if neighbours != "replace":
        return None if n is None else whole("n", n)
    count = table.rows()
    if count == 0:
        raise UsageError("the data has no rows. Use neighbours='add_remove' if that may happen: n is private there.")
    if n is not None and whole("n", n) != count:
        raise UsageError(f"n is {n} but the data has {count} rows. Under 'replace' n is counted: leave it out.")
    return count


def run_plan(
    plan: Plan,
    data: Any,
    *,
    rng: np.random.Generator | None = None,
    columns: list[str] | tuple[str, ...] | None = None,
    privacy_id: str | int | None = None,
    per_person: str | None = None,
    max_rows: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    header: bool | None = None,
) -> Release:
    """Run a plan on data: `Plan.release`. A plan that speaks of people groups their rows unless told otherwise."""
    people = people_of(privacy_id, per_person, max_rows) or People.of_options(plan.options)
    with reading(data, columns, plan.columns, people, progress, header) as (table, tell):
        return of_people(run_on_table(plan, table, rng, threads, tell), people)


def run_on_table(
    plan: Plan,
    table: Table,
    rng: np.random.Generator | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Release:
    """Accumulate, add noise, release."""
    if table.width != plan.d:
        raise UsageError(f"this plan is for {plan.d} columns, the data has {table.width}. Pick columns, or plan anew.")
    with steps(progress, public=plan.neighbours == "replace") as tell:
        partial = accumulate_table(table, plan.row_map, threads, tell)
    return publish(plan, partial, Stream.open(rng))


def publish(plan: Plan, partial: Partial, stream: Stream) -> Release:
    """[U1] Exact sums -> correctly rounded noisy integers -> the release, whatever engine summed the rows."""
    return _restore(plan, noisy_sums(plan, partial, stream), stream.secure)


def noisy_sums(plan: Plan, partial: Partial, stream: Stream) -> Floats:
    """[U1] The noisy sums of a plan in its scaled space; under add_remove the weighted count comes last."""
    if plan.neighbours == "replace" and partial.rows != plan.n:
        raise UsageError(f"this plan is for n = {plan.n} rows, the data has {partial.rows}. Plan anew for this n.")
    shift = shift_for(plan.noise_units)
    noisy = add_noise(partial.sums, plan.noise_units, shift, stream)
    if plan.count_units:  # as an exact rational: its integer may be too wide for limbs before the shift, never after
        rows = [partial.rows * plan.count_units]
        noisy = noisy.join(add_noise_exact(rows, plan.noise_units, shift, stream, len(partial.sums)))
    scaled: Floats = np.ldexp(noisy.to_float(), shift - plan.grid_bits)
    return scaled


def _restore(plan: Plan, scaled: Floats, secure: bool) -> Release:
    """From noisy sums in the scaled space to original units: post-processing only."""
    ellipsoid = plan.ellipsoid
    offset = ellipsoid.restore(scaled[: ellipsoid.width])
    center = ellipsoid.center
    if plan.neighbours == "replace":
        assert plan.n is not None
        if plan.statistic == "sum":
            return Release(center * plan.n + offset, plan, Noise(ellipsoid, plan.scaled_std), secure)
        return Release(center + offset / plan.n, plan, Noise(ellipsoid, plan.scaled_std / plan.n), secure)
    if plan.count_std is None:
        return Release(offset, plan, Noise(ellipsoid, plan.scaled_std), secure)
    count = float(scaled[-1]) / plan.count_weight
    if plan.statistic == "sum":
        noise = Noise(ellipsoid, plan.scaled_std, center * plan.count_std)
        return Release(center * count + offset, plan, noise, secure, count)
    return _ratio(plan, scaled[:-1], count, secure)


def _ratio(plan: Plan, scaled: Floats, count: float, secure: bool) -> Release:
    """[U3] mean = c + T / N. A count below one row says nothing: the offset is then held to the clip region."""
    assert plan.count_std is not None
    ellipsoid = plan.ellipsoid
    divisor = max(count, 1.0)
    offset = scaled / divisor
    if count < 1:
        offset = offset / max(1.0, float(np.linalg.norm(offset)))
    restored = ellipsoid.restore(offset)
    noise = Noise(ellipsoid, plan.scaled_std / divisor, restored * (plan.count_std / divisor))
    return Release(ellipsoid.center + restored, plan, noise, secure, count)
