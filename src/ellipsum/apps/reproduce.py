"""`ellipsum reproduce`: the evaluation of the source report, repeated with exact quantiles and extended.

Standard deviations follow Zipf's law: std_i is proportional to i^-alpha. Figure 1 shows them. Figure 2 shows the
squared noise without a transformation divided by the squared noise with one; both clip a row with probability 1/n.
Figure 3 shows the total error of the report's rule, clipping included, divided by the error of the library's default,
expected and measured.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import Normal, plan
from ..errors import Floats
from ..plans.base import simulate
from ..regions.ellipsoid import THIN
from ..regions.normal_shape import closed_form_scale, quantile_optimal_scale, quantile_radius
from ..util.atomic_files import make_folder, write_atomically

ALPHAS = np.geomspace(1e-2, 1e2, 21)
DIMENSIONS, COUNTS = (10, 100, 1000), (100, 1000, 1_000_000)
SHOWN_ALPHAS = (0.1, 1.0, 3.0)
EPSILON, DELTA = 1.0, 1e-6
TOTALS = ((0.01, 1000), (1.0, 1000), (1.0, 10_000), (1.0, 1_000_000), (3.0, 1000), (3.0, 10_000))
ROWS_SIMULATED = 4_000_000
Advance = Callable[[str, float], None]


def zipf_stds(alpha: float, d: int) -> Floats:
    """std_i = i^-alpha / sum_j j^-alpha."""
    spread = np.arange(1, d + 1, dtype=float) ** -alpha
    return np.asarray(spread / spread.sum())


def improvement(alpha: float, d: int, n: int) -> tuple[float, float]:
    """Ratio of the squared noise without and with a transformation: closed form (lemma 4.1), optimized (equation 25).

    The report's E_n = (2 C_n sigma_opt)^2 lacks the factor d, the number of coordinates, which is included here.
    """
    stds = zipf_stds(alpha, d)
    stds = stds[stds > THIN * stds[0]]
    plain = d * quantile_radius(stds, np.ones_like(stds), 1 / n) ** 2
    scales = closed_form_scale(stds), quantile_optimal_scale(stds, 1 / n)
    closed, best = (quantile_radius(stds, b, 1 / n) ** 2 * float(np.sum(b**-2.0)) for b in scales)
    return plain / closed, plain / best


def totals(alpha: float, n: int, d: int = 100, seed: int = 0) -> dict[str, float]:
    """Total squared error of a sum under the report's rule and the default, expected and measured on normal rows."""
    stds = zipf_stds(alpha, d)
    exact = Normal(np.zeros(d), std=stds, center_error=0.0)
    rule = Normal(np.zeros(d), std=stds, center_error=0.0, shape="closed_form", clip="quantile")
    cautious = Normal(np.zeros(d), std=stds)
    terms: dict[str, Any] = {"n": n, "epsilon": EPSILON, "delta": DELTA}
    plans = {
        "source": plan("sum", rule, **terms),
        "optimal": plan("sum", exact, **terms),
        "default": plan("sum", cautious, **terms),
    }
    row: dict[str, float] = {"alpha": alpha, "n": n, "d": d}
    rng = np.random.default_rng(seed)
    repeats = max(8, min(200, ROWS_SIMULATED // n))
    squares = {name: np.zeros(repeats) for name in plans}
    for i in range(repeats):
        x = rng.standard_normal((n, d)) * stds
        truth = x.sum(axis=0)
        for name, sum_plan in plans.items():
            squares[name][i] = np.sum((simulate(sum_plan, x, rng).value - truth) ** 2)
    for name, sum_plan in plans.items():
        row[f"{name}_forecast"] = float(sum_plan.expected_squared_error or 0)
        row[f"{name}_measured"] = float(squares[name].mean())
        row[f"{name}_standard_error"] = float(squares[name].std(ddof=1) / np.sqrt(repeats))
    for name in ("optimal", "default"):
        row[f"{name}_gain"] = row["source_measured"] / row[f"{name}_measured"]
    return row


def reproduce(folder: Path, advance: Advance, quick: bool = False) -> list[Path]:
    """Write the figures (PNG and SVG) and their numbers (CSV); return the paths."""
    from ..display.plots import studies

    make_folder(folder)
    alphas = ALPHAS[::6] if quick else ALPHAS
    ratios = _improvements(alphas, advance)
    cases = [case for case in TOTALS if not quick or case[1] <= 1000]
    measured = []
    for i, (alpha, n) in enumerate(cases):
        advance("total error, simulated", i / len(cases))
        measured.append(totals(alpha, n))
    advance("total error, simulated", 1.0)
    written = [_table(folder / "improvement.csv", ratios), _table(folder / "total_error.csv", measured)]
    spreads = {alpha: zipf_stds(alpha, 100) for alpha in SHOWN_ALPHAS}
    for suffix in ("png", "svg"):
        written.append(studies.zipf_spreads(spreads, folder / f"figure1.{suffix}"))
        written.append(studies.improvements(ratios, folder / f"figure2.{suffix}"))
        written.append(studies.total_errors(measured, folder / f"figure3.{suffix}"))
    return written


def _improvements(alphas: Floats, advance: Advance) -> list[dict[str, float]]:
    ratios = []
    cases = [(d, n, float(alpha)) for d in DIMENSIONS for n in COUNTS for alpha in alphas]
    for i, (d, n, alpha) in enumerate(cases):
        advance("noise, exact quantiles", i / len(cases))
        closed, best = improvement(alpha, d, n)
        ratios.append({"d": d, "n": n, "alpha": alpha, "closed_form": closed, "optimized": best})
    return ratios


def _table(path: Path, rows: Sequence[dict[str, float]]) -> Path:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, text.getvalue())
    return path
