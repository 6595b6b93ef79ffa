"""Means of columns of which only magnitudes are known: this checkout, another one, and a plain method of two steps.

    python -m benchmarks.accuracy.unknown [--runs 5] [--seed 1] [--tables chosen|spent|once|all]
        [--parts real,few,tenth,columns,vectors] [--only NAME] [--against SRC|FILE] [--save FILE] [--processes 2]
        [--methods plain,coinpress,instance_optimal,variance_aware,friendly_core]

Every method releases the same rows at the same (epsilon, delta), one row replaced. --against takes the src folder of
another checkout, which is measured in a process of its own, or a file that --save wrote. --methods are what else to
compare with: the plain one by default, published ones as the library has them.
  real      tables of `_real.py`, all rows, epsilon 1 and delta 1e-6; `once` tables are for the last run only
  few       50 to 500 rows drawn from each table of up to nine columns
  tenth     the same tables with all rows, epsilon 0.1
  columns   synthetic: 1, 2 and 3 columns of one of seven distributions, n = 1000 and 10,000
  vectors   synthetic: many columns, with and without units of their own
Error of a column: distance from the mean of its non-missing values, in its own standard deviations; for vectors without
names, in the root mean square of all columns' standard deviations. Printed per setting and method:
  signal    n mu / sqrt(2 d): rows per standard deviation of the noise of a histogram of all columns
  rms, median, worst    error over runs and columns; columns that were not found count as infinite in the median only
  not found  share of columns whose answer is no number, or whose interval is the whole range beside a warning
  silent     releases without a warning in which a column errs by more than one: those are failures
  covered    share of 95% intervals that hold, in releases without a warning; of pooled settings also the least
  width      median half-width over 1.96 times the root mean square error, columns' geometric mean, the same releases
  warned     share of releases with a warning
  /plain, /other    rms over that of the plain method, and over that of --against
The last lines pool settings: ratios by geometric means, shares over all columns or releases, the worst of worsts.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import ellipsum as es

from . import _real
from ._settings import DELTA, PARTS, Setting, gaussian_mu, settings

ENOUGH = 40  # signal from which on no failure may be silent
Z95 = 1.959964


# --- methods: (setting, rows, generator) -> values, lower ends, upper ends, whether it warned

Answer = tuple[np.ndarray, np.ndarray, np.ndarray, bool]


def library(setting: Setting, data: Any, rng: np.random.Generator, **options: str) -> Answer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", es.AccuracyWarning)
        rows = es.Unknown(setting.magnitude, **options)
        release = es.mean(data, rows, epsilon=setting.epsilon, delta=DELTA, rng=rng, threads=1)
    low, high = release.confidence_interval(0.95).T
    return release.value, low, high, bool(release.warnings)


def plain(setting: Setting, data: Any, rng: np.random.Generator) -> Answer:
    """Half of mu^2 for histograms in powers of two, half for the mean between each column's outermost full bins."""
    values, magnitude = plain_rows(data), limits(setting)
    n, d = values.shape
    mu = gaussian_mu(setting.epsilon, DELTA) / math.sqrt(2)
    missing = np.isnan(values).sum(axis=0) + math.sqrt(2 * d) / mu * rng.standard_normal(d)  # a bin of the histogram
    powers = 2.0 ** np.arange(-30, 1)
    outward = np.concatenate([-powers[::-1], powers])  # bins end here; one is about zero
    noise, center = math.sqrt(2 * d) / mu, np.zeros(d)
    low, high = -magnitude.copy(), magnitude.copy()
    for j in range(d):
        edges = outward * magnitude[j]
        counts = np.histogram(values[:, j], edges)[0] + noise * rng.standard_normal(len(edges) - 1)
        full = np.nonzero(counts > noise * math.sqrt(2 * math.log(20 * d * len(counts))))[0]
        if len(full):
            low[j], high[j] = edges[full[0]], edges[full[-1] + 1]
            center[j] = (low[j] + high[j]) / 2
    clamped = np.clip(np.where(np.isnan(values), center, values), low, high)
    std = (high - low) * math.sqrt(d) / mu
    count = np.maximum(n - np.where(missing > 4 * noise, missing, 0.0), 1.0)
    value = center + ((clamped - center).sum(axis=0) + std * rng.standard_normal(d)) / count
    return value, value - Z95 * std / count, value + Z95 * std / count, False


def plain_rows(data: Any) -> np.ndarray:
    return data if isinstance(data, np.ndarray) else np.column_stack([column.to_numpy() for column in data.columns])


def limits(setting: Setting) -> np.ndarray:
    stated = setting.magnitude
    return np.array(list(stated.values()) if isinstance(stated, dict) else [stated] * setting.d, float)


PUBLISHED = ("coinpress", "instance_optimal", "variance_aware", "friendly_core")
METHODS = {"library": library, "plain": plain, **{name: partial(library, method=name) for name in PUBLISHED}}


# --- runs


@dataclass(frozen=True)
class Runs:
    """Releases of one setting: arrays of runs x columns, in units of the error; warned and seconds one per run."""

    error: np.ndarray
    half: np.ndarray
    covered: np.ndarray
    found: np.ndarray
    warned: np.ndarray
    seconds: np.ndarray

    @staticmethod
    def of(saved: dict[str, Any]) -> Runs:
        return Runs(*(np.asarray(saved[name]) for name in Runs.__dataclass_fields__))

    @property
    def rms(self) -> float:
        return float(np.sqrt(np.mean(self.error[self.found] ** 2))) if self.found.any() else math.nan

    @property
    def failures(self) -> int:
        """Releases without a warning in which a column errs by more than one unit."""
        return int(np.sum(~self.warned & (np.where(self.found, np.abs(self.error), 0.0) > 1).any(axis=1)))

    @property
    def silent(self) -> np.ndarray:
        return self.found & ~self.warned[:, None]

    @property
    def width(self) -> float:
        """Half-widths over what they need to be."""
        ratios = []
        for error, half, silent in zip(self.error.T, self.half.T, self.silent.T, strict=True):
            rms = np.sqrt(np.mean(error[silent] ** 2)) if silent.sum() > 1 else 0.0
            if rms:
                ratios.append(np.median(half[silent]) / (Z95 * rms))
        return geometric(ratios)


def measure(tables: str, key: str, method: str, runs: range, seed: int) -> dict[str, Any]:
    setting = settings(tables)[key]
    place, found = zlib.crc32(key.encode()), []
    magnitude = limits(setting)
    for run in runs:
        data = setting.data(int(np.random.default_rng([seed, place, run]).integers(2**62)))
        values = plain_rows(data)
        truth, unit = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
        if isinstance(data, np.ndarray):
            unit = np.full(setting.d, math.sqrt(np.mean(unit**2)))
        unit = np.where(unit > 0, unit, np.nan)  # few rows of a column may be equal
        begin = time.perf_counter()
        value, low, high, warned = METHODS[method](setting, data, np.random.default_rng([seed, place, run, 1]))
        seconds = time.perf_counter() - begin
        whole = (low <= -magnitude) & (high >= magnitude)
        located = np.isfinite(value) & np.isfinite(unit) & ~(whole & warned)
        error, half = (value - truth) / unit, (high - low) / 2 / unit
        found.append((error, half, (low <= truth) & (truth <= high), located, warned, seconds))
    parts = [np.array(part).tolist() for part in zip(*found, strict=True)]
    return dict(zip(Runs.__dataclass_fields__, parts, strict=True))


def measure_all(tables: str, keys: list[str], method: str, runs: int, seed: int, processes: int) -> dict[str, Any]:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # a process a task: no threads within
    begin, results = time.monotonic(), {}
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        pending = {key: pool.submit(measure, tables, key, method, range(runs), seed) for key in keys}
        for place, (key, future) in enumerate(pending.items(), 1):
            try:
                results[key] = future.result()
            except Exception as error:  # said below the table; other settings go on
                results[key] = {"refused": f"{type(error).__name__}: {error}"}
            print(f"{method}: {place} of {len(keys)}, {time.monotonic() - begin:.0f} s, {key}", file=sys.stderr)
    return results


def other(source: Path, given: argparse.Namespace) -> dict[str, Any]:
    """What another checkout's library does, by its src folder; or what a file says that it did."""
    if source.is_file():
        return dict(json.loads(source.read_text()))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "other.json"
        words = ["--runs", given.runs, "--seed", given.seed, "--tables", given.tables, "--parts", ",".join(given.parts)]
        command = [
            sys.executable,
            "-m",
            __spec__.name,
            *map(str, words),
            "--processes",
            str(given.processes),
            "--save",
            file,
        ]
        environment = os.environ | {"PYTHONPATH": str(source.resolve())}
        subprocess.run(command, env=environment, check=True)
        return dict(json.loads(file.read_text()))


# --- the report

HEADER = (
    "| setting | n | d | signal | method | rms | median | worst | not found | silent | covered | width | warned "
    "| /plain | /other | ms | passes |\n" + "| --- " * 17 + "|"
)


def geometric(values: list[float]) -> float:
    usable = [value for value in values if value > 0 and math.isfinite(value)]
    return math.exp(float(np.mean(np.log(usable)))) if usable else math.nan


def shown(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3g}"


def line(title: list[str], runs: list[Runs], ratios: list[str], passes: str) -> str:
    """One setting, or several: geometric means of errors, coverage as their mean, everything else over all releases."""
    error = np.concatenate([np.where(r.found, np.abs(r.error), np.inf).ravel() for r in runs])
    found = np.concatenate([r.found.ravel() for r in runs])
    shares = [float(r.covered[r.silent].mean()) for r in runs if r.silent.any()]
    least = f" (least {min(shares):.2f})" if len(shares) > 1 else ""
    warned, many = np.concatenate([r.warned for r in runs]), sum(len(r.warned) for r in runs)
    numbers = [
        shown(geometric([r.rms for r in runs])),
        shown(float(np.median(error))),
        shown(float(error[found].max(initial=0.0))),
        f"{1 - found.mean():.1%}",
        f"{sum(r.failures for r in runs)}/{many}",
        f"{np.mean(shares):.3f}{least}" if shares else "",
        shown(geometric([r.width for r in runs])),
        f"{warned.mean():.2f}",
        *ratios,
        shown(1000 * float(np.median(np.concatenate([r.seconds for r in runs])))),
        passes,
    ]
    return f"| {' | '.join([*title, *numbers])} |"


def span(values: list[float]) -> str:
    least, most = f"{min(values):,.0f}", f"{max(values):,.0f}"
    return least if least == most else f"{least} to {most}"


def rows_of(
    name: str, group: list[Setting], sides: dict[str, dict[str, Runs]], passes: Callable[[Setting], str]
) -> Iterator[str]:
    """One line for each method, over the settings that every method answered."""
    common = [s for s in group if all(s.key in runs for runs in sides.values())]
    if not common:
        return
    facts = [span([float(getattr(s, fact)) for s in common]) for fact in ("n", "d", "signal")]
    for method, runs in sides.items():
        ratios = [
            shown(geometric([runs[s.key].rms / sides[than][s.key].rms for s in common])) if than in sides else ""
            for than in ("plain", "other")
        ]
        stated = passes(common[0]) if method == "library" and len(common) == 1 else ""
        yield line([name, *facts, method], [runs[s.key] for s in common], ratios, stated)


def pooled(all_settings: list[Setting]) -> dict[str, list[Setting]]:
    """The lines that sum up: by part, and real tables by their columns and by whether rows are enough."""
    tables = [s for s in all_settings if s.part == "real"]
    groups = {
        "real, up to 9 columns": [s for s in tables if s.d <= _real.NARROW],
        "real, more columns": [s for s in tables if s.d > _real.NARROW],
        f"real, signal below {ENOUGH}": [s for s in tables if s.signal < ENOUGH],
        f"real, signal from {ENOUGH} on": [s for s in tables if s.signal >= ENOUGH],
        "real, all": tables,
    }
    for part in dict.fromkeys(s.part for s in all_settings if s.part != "real"):
        groups[part] = [s for s in all_settings if s.part == part]
    return groups


def report(all_settings: list[Setting], sides: dict[str, dict[str, Runs]]) -> Iterator[str]:
    def passes(setting: Setting) -> str:
        how = {"n": setting.n, "epsilon": setting.epsilon, "delta": DELTA}
        size = {} if isinstance(setting.magnitude, dict) else {"d": setting.d}
        return str(es.plan("mean", es.Unknown(setting.magnitude), **how, **size).passes)

    yield HEADER
    for setting in all_settings:
        if setting.part in ("real", "vectors"):
            yield from rows_of(setting.name, [setting], sides, passes)
    for name, group in pooled(all_settings).items():
        yield from rows_of(f"**{name}** ({len(group)})", group, sides, passes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1, help="another one shows what is chance")
    parser.add_argument("--tables", choices=["chosen", "spent", "once", "all"], default="chosen")
    parser.add_argument("--parts", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--only", default="", help="settings whose name holds this")
    parser.add_argument("--methods", type=lambda text: text.split(","), default=["plain"])
    parser.add_argument("--against", type=Path, help="src folder of another checkout, or what --save wrote")
    parser.add_argument("--save", type=Path, help="write this library's releases there, and no more")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    wanted = [
        one
        for one in settings(given.tables).values()
        if one.part.split(",")[0] in given.parts and given.only in one.name
    ]
    keys = [one.key for one in wanted]
    measured = {"library": measure_all(given.tables, keys, "library", given.runs, given.seed, given.processes)}
    if given.save:
        given.save.write_text(json.dumps(measured["library"]))
        return 0
    if given.against:
        measured["other"] = other(given.against, given)
    for method in given.methods:
        measured[method] = measure_all(given.tables, keys, method, given.runs, given.seed, given.processes)
    sides = {
        method: {key: Runs.of(found) for key, found in results.items() if key in keys and "refused" not in found}
        for method, results in measured.items()
    }
    print("\n".join(report(wanted, sides)))
    for method, results in measured.items():
        for key, found in results.items():
            if "refused" in found and key in keys:
                print(f"\n{method} refused {key}: {found['refused']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
