"""Does the 95% interval of a private mean hold the true mean of the data, column by column?

    python -m benchmarks.accuracy.coverage [--runs 200] [--tables iris,movies] [--kinds box,normal,unknown]
                                           [--epsilon 1] [--delta 1e-6] [--seed 7] [--processes 2]

The truth is each column's mean over the rows that have it, unclipped; `_tables.py` has the tables and the rule by
which rows are described. A run is silent if its release says nothing against itself. One line per table and kind:
  warned     runs that warned
  least      least coverage of a column, over the silent runs; `average` over the columns
  / noise    median half-width of the intervals, over that of the noise alone; `/ std` over the column's own std
  error      root mean square error, in the column's own std (all runs)
  least of all, below    least coverage of a column over all runs; how many columns cover less than 0.85 of them
  clamped, limit         rows with a value outside its bounds; in fewer than `limit` rows they may go unnoticed
Fails (exit code 1) if a release ends in an error, if a column's coverage over silent runs has a probability below 1e-6
at 0.95, if all silent runs together cover less than 0.94, if more than a third of the cases without bounds warn in most
runs, or if boxes warn more often than in one release of 10,000 and chance. With tight bounds the truth is that of the
unclamped values, so intervals may miss it: there it fails where a column covers less than 0.85 over all runs of a table
that warns in less than 95% of the runs and whose plan prints a detection limit at or below the number of rows with a
clamped value.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
import zlib
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
from scipy.stats import binom, norm

import ellipsum as es

from ._tables import KINDS, LOADERS, SEED, Table, installed, load

LEVEL, IMPROBABLE, AVERAGE, MOST_WARNING = 0.95, 1e-6, 0.94, 1 / 3
LEAST_TIGHT, NOTICED = 0.85, 0.95
FALSE_ALARM = 1e-4
AT_ONCE = 20  # runs of one task


@dataclass(frozen=True)
class Runs:
    """Releases of one table by one kind of rows; arrays are (runs, columns)."""

    warned: np.ndarray
    """One per run."""
    covered: np.ndarray
    half: np.ndarray
    noise: np.ndarray
    error: np.ndarray
    limit: np.ndarray
    """One per run: clamping in fewer rows may go unnoticed, as plan and release print."""

    @staticmethod
    def join(parts: list[Runs]) -> Runs:
        return Runs(*(np.concatenate([vars(part)[name] for part in parts]) for name in Runs.__dataclass_fields__))


def measure(name: str, kind: str, runs: range, budget: es.Budget, seed: int) -> Runs:
    table = load(name)
    data, rows, truth = table.data, table.rows(kind), table.mean
    place = zlib.crc32(f"{name} {kind}".encode())
    releases = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", es.AccuracyWarning)
        for run in runs:
            rng = np.random.default_rng([seed, place, run])
            releases.append(es.mean(data, rows, budget=budget, rng=rng, threads=1))
    assert all(release.columns == tuple(table.columns) for release in releases)
    intervals = np.array([release.confidence_interval(LEVEL) for release in releases])
    lower, upper = intervals[..., 0], intervals[..., 1]
    return Runs(
        np.array([bool(release.warnings) for release in releases]),
        (lower <= truth) & (truth <= upper),
        (upper - lower) / 2,
        np.array([release.noise_std for release in releases]),
        np.array([release.value for release in releases]) - truth,
        np.array([_limit(release) for release in releases]),
    )


def _limit(release: es.Release) -> int:
    test = release.plan.clamping_test
    return 0 if test is None else test.undetected_rows


@dataclass(frozen=True)
class Case:
    table: Table
    kind: str
    runs: Runs

    @property
    def silent(self) -> int:
        return int(np.sum(~self.runs.warned))

    @property
    def counts(self) -> np.ndarray:
        """In how many silent runs each column was covered."""
        return np.asarray(self.runs.covered[~self.runs.warned].sum(axis=0))

    @property
    def improbable(self) -> list[str]:
        """Columns whose count of covered silent runs cannot be chance."""
        odds = binom.cdf(self.counts, self.silent, LEVEL)
        found = zip(self.table.columns, self.counts, odds, strict=True)
        return [f"{name} {count}/{self.silent}" for name, count, odd in found if odd < IMPROBABLE]

    @property
    def clamped(self) -> int:
        """Rows with a clamped value; 0 for rows that are clipped by their norm."""
        rows = self.table.rows(self.kind)
        return self.table.clamped(rows) if isinstance(rows, es.Box) else 0

    @property
    def missed(self) -> list[str]:
        """Columns with tight bounds that cover too little, where neither a warning nor the printed limit says so."""
        if self.kind != "tight" or self.runs.warned.mean() >= NOTICED or self.clamped < self.runs.limit.min():
            return []
        shares = zip(self.table.columns, self.runs.covered.mean(axis=0), strict=True)
        return [f"{name} {share:.0%}" for name, share in shares if share < LEAST_TIGHT]

    @property
    def mostly_warns(self) -> bool:
        return float(self.runs.warned.mean()) > 0.5

    def line(self) -> str:
        table, runs = self.table, self.runs
        shares = self.counts / self.silent if self.silent else np.full(len(table.columns), np.nan)
        live, every = (runs.noise > 0).all(axis=0), runs.covered.mean(axis=0)  # tight bounds may leave no width
        to_noise = np.median((runs.half / norm.ppf((1 + LEVEL) / 2))[:, live] / runs.noise[:, live])
        to_std = np.median(runs.half / table.std)
        error = np.sqrt(np.mean((runs.error / table.std) ** 2))
        return (
            f"{table.name:18}{self.kind:9}{table.n:>7}{len(table.columns):>4}{table.missing:>9.1%}"
            f"{f'{int(runs.warned.sum())}/{len(runs.warned)}':>9}{shares.min():>8.3f}{shares.mean():>9.3f}"
            f"{to_noise:>9.3g}{to_std:>9.3g}{error:>9.3g}{every.min():>8.2f}{int((every < LEAST_TIGHT).sum()):>7}"
            f"{self.clamped:>9}{runs.limit.min():>7}{'  FAILS' if self.improbable or self.missed else ''}"
        )


HEADER = (
    f"{'table':18}{'rows':9}{'n':>7}{'d':>4}{'missing':>9}{'warned':>9}{'least':>8}{'average':>9}"
    f"{'/ noise':>9}{'/ std':>9}{'error':>9}{'of all':>8}{'below':>7}{'clamped':>9}{'limit':>7}"
)


def cases(
    tables: list[str], kinds: list[str], runs: int, budget: es.Budget, processes: int, seed: int
) -> Iterator[Case | str]:
    """Each case as it was measured, or what stopped it: no release may fail for its data."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # a process a task: no threads within
    begin, wanted = time.monotonic(), [(table, kind) for table in tables for kind in kinds]
    parts = [range(runs)[start : start + AT_ONCE] for start in range(0, runs, AT_ONCE)]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        pending: list[list[Future[Runs]]] = [
            [pool.submit(measure, *case, part, budget, seed) for part in parts] for case in wanted
        ]
        for place, ((name, kind), futures) in enumerate(zip(wanted, pending, strict=True)):
            try:
                yield Case(load(name), kind, Runs.join([future.result() for future in futures]))
            except es.EllipsumError as error:
                yield f"{name} {kind}: {error}"
            print(f"{place + 1} of {len(wanted)} cases, {time.monotonic() - begin:.0f} s", file=sys.stderr)


def verdicts(found: list[Case], stopped: list[str]) -> dict[str, bool]:
    """What was asked of the intervals, and whether it holds."""
    tight = [case for case in found if case.kind == "tight"]
    found = [case for case in found if case.kind != "tight"]
    silent = sum(case.silent * len(case.table.columns) for case in found)
    covered = sum(int(case.counts.sum()) for case in found) / silent if silent else np.nan
    low = [f"{case.table.name} {case.kind} ({', '.join(case.improbable)})" for case in found if case.improbable]
    guesses = [case for case in found if case.kind != "box"]
    under = sum(int((case.runs.covered.mean(axis=0) < LEAST_TIGHT).sum()) for case in tight)
    missed = [f"{case.table.name} ({', '.join(case.missed)})" for case in tight if case.missed]
    warning = sum(case.mostly_warns for case in guesses)
    boxes = [case for case in found if case.kind == "box"]
    alarms, released = sum(int(c.runs.warned.sum()) for c in boxes), sum(len(c.runs.warned) for c in boxes)
    return {
        f"cases that an error stopped: {len(stopped)}" + "".join(f"\n    {c}" for c in stopped): not stopped,
        f"silent cases with a column below chance: {len(low)} of {len(found)}"
        + "".join(f"\n    {c}" for c in low): not low,
        f"average coverage of silent runs: {covered:.4f}, wanted >= {AVERAGE}": not silent or covered >= AVERAGE,
        f"cases without bounds that mostly warn: {warning} of {len(guesses)}, wanted at most a third": (
            warning <= MOST_WARNING * len(guesses)
        ),
        f"releases of boxes that warned: {alarms} of {released}, wanted at most one in 10,000 and chance": (
            binom.sf(alarms - 1, released, FALSE_ALARM) >= IMPROBABLE
        ),
        f"tight bounds: {under} of {sum(len(case.table.columns) for case in tight)} columns cover less than "
        f"{LEAST_TIGHT}, without a warning or limit: {'; '.join(missed) or 'none'}": not missed,
    }


def chosen(text: str, known: tuple[str, ...]) -> list[str]:
    """The names in a list with commas."""
    names = text.split(",")
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not among {', '.join(known)}")
    return names


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=SEED, help="of the noise; another one shows what is chance")
    parser.add_argument("--tables", type=lambda text: chosen(text, tuple(LOADERS)), default=list(LOADERS))
    parser.add_argument("--kinds", type=lambda text: chosen(text, KINDS), default=list(KINDS))
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    budget = es.Budget(epsilon=given.epsilon, delta=given.delta)
    tables = installed(given.tables)
    print(HEADER, flush=True)
    found, stopped = [], []
    for case in cases(tables, given.kinds, given.runs, budget, given.processes, given.seed):
        if isinstance(case, str):
            stopped.append(case)
        else:
            found.append(case)
            print(case.line(), flush=True)
    holds = verdicts(found, stopped)
    for text, held in holds.items():
        print(f"{'holds' if held else 'FAILS'}  {text}")
    return 0 if all(holds.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
