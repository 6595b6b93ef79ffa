"""Private means of rows of which only a magnitude is known: every method on the same samples.

    python -m benchmarks.accuracy.mean [--more] [--hard] [--runs 50] [--seed 20] [--processes 2] [--output out]

mu = 1 (rho = 0.5) unless a setting says (1, 1e-6); one row replaced. Error of a run: ‖estimate - mean of the sample‖,
so that it is what privacy costs; where the law is known also ‖estimate - true mean‖. Columns in units of their own
count in those. Means of squares, medians and spreads over the runs; each method with one set of constants for all
settings (published ones with several; the best in each setting counts).
Writes mean_accuracy.md and mean_accuracy.png, and says for each setting whether
  - auto's mean squared error is at least 20% below the best published one, or that one is better, and by how many
    standard errors of their difference, run by run, and
  - auto's root mean square error is within 1.25 of the oracle's (where n >= 10 d),
and beside them the ratio to the sources' rule that knows center and scales, the standard error of auto's, its stated
error over the measured one, how often its 95% intervals hold the mean, and the share of runs that warned.
`_methods.py` says what each method is told.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import ellipsum as es

from ._methods import FAVORED, Estimator, estimators, is_published, release
from ._settings import MAIN, Setting, hard, more

SEED = 20
GAIN, NEAR, MANY_ROWS = 0.8, 1.25, 10
Errors = dict[str, tuple[float, float]]
STATED, COVERED = " stated", " covered"  # beside the errors: no methods

_known: dict[str, tuple[Setting, dict[str, Estimator]]] = {}


def one_run(name: str, run: int, seed: int) -> Errors:
    """Squared errors of every estimator on one sample: against the sample's mean, and the true one (or NaN)."""
    if not _known:
        _known.update({s.name: (s, {}) for s in [*MAIN, *more(), *hard()]})
    setting, found = _known[name]
    if not found:
        found.update(estimators(setting))
    place = list(_known).index(name)
    rows = setting.draw(np.random.default_rng([seed, place, run]))
    middle, truth = rows.mean(axis=0), setting.center
    unit = 1.0 if setting.unit is None else setting.unit

    def squares(value: np.ndarray) -> tuple[float, float]:
        true = math.nan if truth is None else float(np.sum(((value - truth) / unit) ** 2))
        return float(np.sum(((value - middle) / unit) ** 2)), true

    made, warned = _quietly(setting, rows, np.random.default_rng([seed, place, run, 0]))
    low, high = made.confidence_interval(0.95).T
    errors = {"sample mean": squares(middle), "auto": squares(made.value)}
    errors[STATED] = float(np.sum((made.noise_std / unit) ** 2)), math.nan
    errors[COVERED] = float(np.mean((low <= middle) & (middle <= high))), float(warned)
    for which, (label, estimate) in enumerate(found.items(), 1):
        errors[label] = squares(estimate(rows, np.random.default_rng([seed, place, run, which])))
    return errors


def _quietly(setting: Setting, rows: np.ndarray, rng: np.random.Generator) -> tuple[es.Release, bool]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", es.AccuracyWarning)
        made = release(setting, rows, rng)
    return made, bool(made.warnings)


@dataclass(frozen=True)
class Measured:
    """All runs of one setting: label -> (runs, 2) squared errors."""

    setting: Setting
    squares: dict[str, np.ndarray]

    def root(self, label: str) -> float:
        return math.sqrt(float(self.squares[label][:, 0].mean()))

    @property
    def best(self) -> str:
        """The published method of least mean squared error."""
        return min(filter(is_published, self.squares), key=self.root)

    @property
    def gain(self) -> float:
        """Mean squared error of auto over the best published."""
        return (self.root("auto") / self.root(self.best)) ** 2

    @property
    def behind(self) -> float:
        """How far the best published method is ahead in mean squares, in standard errors of the difference."""
        apart = self.squares["auto"][:, 0] - self.squares[self.best][:, 0]
        return float(apart.mean() / (apart.std(ddof=1) / math.sqrt(len(apart))))

    @property
    def median_gain(self) -> float:
        """The same of median errors, squared: a method that rarely fails badly looks better here."""
        medians = {label: float(np.median(found[:, 0])) for label, found in self.squares.items()}
        return medians["auto"] / min(value for label, value in medians.items() if is_published(label))

    @property
    def error(self) -> float:
        """Standard error of auto's root mean square."""
        squares = self.squares["auto"][:, 0]
        return float(squares.std()) / math.sqrt(len(squares)) / (2 * self.root("auto"))

    @property
    def honesty(self) -> str:
        """Stated over measured error, coverage of intervals, share of runs that warned."""
        covered, warned = self.squares[COVERED].mean(axis=0)
        return f"{self.root(STATED) / self.root('auto'):.2f} | {covered:.3f} | {warned:.2f}"

    def to(self, label: str) -> float | None:
        """Root mean square error of auto over that of an estimator which knows center and scales."""
        return self.root("auto") / self.root(label) if label in self.squares else None


def measure(settings: list[Setting], runs: int, processes: int, seed: int) -> Iterator[Measured]:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # a process a run: no threads within
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        pending = [(s, [pool.submit(one_run, s.name, run, seed) for run in range(runs)]) for s in settings]
        for setting, futures in pending:
            found = [future.result() for future in futures]
            yield Measured(setting, {label: np.array([one[label] for one in found]) for label in found[0]})


def table(measured: Measured) -> list[str]:
    """A markdown table: how the errors of each method spread over the runs."""
    lines = [
        f"### {measured.setting.name}, magnitude {measured.setting.magnitude:g}",
        "",
        "| method | root mean square | median | 10%..90% | mean squared | to the true mean | vs auto |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    auto = measured.root("auto")
    methods = {label: found for label, found in measured.squares.items() if label not in (STATED, COVERED)}
    for label, squares in sorted(methods.items(), key=lambda item: float(item[1][:, 0].mean())):
        errors = np.sqrt(squares[:, 0])
        low, middle, high = np.quantile(errors, [0.1, 0.5, 0.9])
        true = math.sqrt(float(squares[:, 1].mean()))
        lines.append(
            f"| {label} | {measured.root(label):.4g} | {middle:.4g} | {low:.4g}..{high:.4g} "
            f"| {float(squares[:, 0].mean()):.4g} | {'' if math.isnan(true) else f'{true:.4g}'} "
            f"| {measured.root(label) / auto:.3f} |"
        )
    return [*lines, ""]


def verdict(measured: Measured) -> str:
    s, gain, near, rule = measured.setting, measured.gain, measured.to("oracle"), measured.to("sources' rule")
    better = "yes" if gain <= GAIN else "NO" if measured.behind <= 0 else f"NO: behind by {measured.behind:.1f}"
    close = ""
    if near is not None:
        asked = s.n >= MANY_ROWS * s.d
        close = f"{near:.3f}" + (f" {'yes' if near <= NEAR else 'NO'}" if asked else " (n < 10 d)")
    favored = [measured.root(label) for label in measured.squares if label.startswith(FAVORED)]
    favor = f"{(measured.root('auto') / min(favored)) ** 2:.3f}" if favored else ""
    ours = f"{measured.root('auto'):.4g} ± {measured.error:.2g} | {measured.honesty}"
    peers = f"{measured.best} | {gain:.3f} | {better} | {measured.median_gain:.3f}"
    return f"| {s.name} | {ours} | {peers} | {close} | {'' if rule is None else f'{rule:.3f}'} | {favor} |"


SUMMARY = (
    "| setting | auto | stated / measured | covered | warned | best published "
    "| auto / best (mean squares) | 20% below | by medians "
    "| auto / oracle (roots), within 1.25 | auto / sources' rule (roots) "
    "| auto / coinpress told the largest std (mean squares) |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def picture(results: list[Measured], path: Path) -> None:
    """Root mean square error over auto's, one column a setting."""
    from ellipsum.display.plots.canvas import figure
    from ellipsum.display.plots.style import COLORS

    made, axis = figure(max(9.0, 1.6 * len(results)), 5.0)
    kinds = {
        "auto": 1,
        "coinpress": 0,
        "instance_optimal": 2,
        "variance_aware": 3,
        "friendly_core": 6,
        "oracle": 4,
        FAVORED: 5,
    }
    colors = (*COLORS, "0.5")
    for kind, color in kinds.items():
        points = [
            (x, found.root(label) / found.root("auto"))
            for x, found in enumerate(results)
            for label in found.squares
            if label.startswith(kind)
        ]
        if points:
            name = kind.removesuffix(": ")
            axis.scatter(*zip(*points, strict=True), color=colors[color], marker="_", s=300, lw=2.5, label=name)
    axis.set_yscale("log")
    axis.set_ylim(0.5, 30)
    axis.set_ylabel("root mean square error / auto's (above 30 not shown)")
    axis.set_xticks(
        range(len(results)), [r.setting.name.replace(", d", ",\nd") for r in results], rotation=25, ha="right"
    )
    axis.set_title("Private mean, only a magnitude known, mu = 1")
    axis.legend(frameon=False, ncols=3)
    made.savefig(path, dpi=130)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--more", action="store_true", help="also harder laws and real tables (a fifth of the runs)")
    parser.add_argument(
        "--hard", action="store_true", help="also outliers, skew, mixed units, correlation, small budgets"
    )
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=SEED, help="another one shows what is chance")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="settings whose name holds this")
    parser.add_argument("--output", type=Path, default=Path("out"))
    given = parser.parse_args()
    plans = [(MAIN, given.runs)] + ([(more(), max(10, given.runs // 5))] if given.more else [])
    plans += [(hard(), given.runs)] if given.hard else []
    begin, results = time.monotonic(), []
    for settings, runs in plans:
        chosen = [s for s in settings if given.only in s.name]
        for measured in measure(chosen, runs, given.processes, given.seed):
            results.append(measured)
            print("\n".join(table(measured)), flush=True)
    report = [SUMMARY, *map(verdict, results)]
    print("\n".join(report))
    given.output.mkdir(parents=True, exist_ok=True)
    text = "\n".join([*report, "", *(line for measured in results for line in table(measured))])
    (given.output / "mean_accuracy.md").write_text(text)
    picture(results, given.output / "mean_accuracy.png")
    print(f"{time.monotonic() - begin:.0f} s; wrote mean_accuracy.md and mean_accuracy.png to {given.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
