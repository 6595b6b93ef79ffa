"""`ellipsum demo`: one realistic table, two noise shapes, error against forecast.

The true error is shown because the table is generated; on real data it may never be published.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ..api import AnyPlan, plan
from ..errors import Floats, whole
from ..plans.base import trial
from ..rows import Box
from ..util.atomic_files import make_folder

EPSILON, DELTA, REPEATS = 1.0, 1e-6, 200
BOUNDS = {
    "age": (0.0, 110.0),
    "income": (0.0, 250_000.0),
    "weekly_hours": (0.0, 80.0),
    "commute_km": (0.0, 150.0),
    "sleep_hours": (0.0, 16.0),
    "heart_rate": (30.0, 200.0),
    "steps": (0.0, 40_000.0),
    "body_mass_index": (10.0, 60.0),
}


def generate_people(n: int, seed: int = 1) -> Floats:
    """A table of n invented people: skewed incomes, correlated hours and age, a few outliers to clip."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.gamma(9, 4.6, n), 16, 105)
    working = rng.random(n) < np.where(age < 67, 0.78, 0.12)
    hours = np.where(working, rng.normal(36, 8, n), rng.exponential(2, n))
    income = np.exp(rng.normal(10.3, 0.65, n)) * np.where(working, 1.0, 0.45)
    commute = np.where(working, rng.exponential(17, n), 0)
    sleep = rng.normal(7.1, 1.1, n)
    heart = rng.normal(71, 10, n) + 0.08 * (age - 40)
    steps = rng.gamma(3.2, 2200, n)
    bmi = rng.normal(26.2, 4.6, n)
    return np.stack([age, income, hours, commute, sleep, heart, steps, bmi], axis=1)


def run_demo(folder: Path, rows: int) -> None:
    """Release the mean under three kinds of noise at one budget; print a table, draw a picture.

    Errors are in plain units, all columns together, as in the sources; entries are all there.
    """
    n = whole("rows", rows, 2)
    console = Console(highlight=False, markup=False)
    console.print(
        f"{n} invented people, {len(BOUNDS)} columns, epsilon = {EPSILON:g}, delta = {DELTA:g}, one row replaced."
    )
    data = generate_people(n)
    truth = data.mean(axis=0)
    box = Box(BOUNDS)
    terms: dict[str, Any] = {"n": n, "epsilon": EPSILON, "delta": DELTA, "statistic": "mean", "missing": "center"}
    plans = {
        "ball": plan(box, shape="ball", noise="gaussian", **terms),
        "elliptical": plan(box, weights="equal", noise="gaussian", **terms),
        "best law": plan(box, weights="equal", **terms),
    }
    errors = {name: measure(mean_plan, data, truth) for name, mean_plan in plans.items()}
    console.print(_table(truth, plans, errors))
    for name, mean_plan in plans.items():
        forecast = float(np.sqrt(mean_plan.expected_squared_error or 0))
        console.print(f"{name:>10}: whole error {_rms(errors[name]):.4g}, forecast {forecast:.4g}")
    gains = [(_rms(errors["ball"]) / _rms(errors[name])) ** 2 for name in ("elliptical", "best law")]
    console.print(
        f"Elliptical noise has {gains[0]:.1f} times less squared error than ball noise at the same guarantee,"
    )
    console.print(f"and the law of least error, pure here, {gains[1]:.0f} times less.")
    console.print(f"Measured over {REPEATS} releases each, against the mean of the table itself.")
    console.print(_clamping(data, truth, errors["best law"]))
    _draw(folder, plans, errors, console)


def measure(mean_plan: AnyPlan, data: Floats, truth: Floats) -> Floats:
    """Errors of REPEATS releases, a row each."""
    return np.stack([trial(mean_plan, data).value - truth for _ in range(REPEATS)])


def _clamping(data: Floats, truth: Floats, errors: Floats) -> str:
    """What clamping does to the measured errors, which forecasts of noise leave out."""
    lower, upper = np.array(list(BOUNDS.values())).T
    clamped = np.clip(data, lower, upper)
    moved = clamped.mean(axis=0) - truth
    far = list(BOUNDS)[int(np.argmax(np.abs(moved)))]
    return (
        f"Entries beyond their bounds are clamped ({int((clamped != data).sum())} here), which moves the mean by "
        f"{float(np.linalg.norm(moved)):.3g}, most of all in {far}; forecasts are of the noise. "
        f"Against the mean of the clamped table the best law's error is {_rms(errors - moved):.4g}."
    )


def _rms(errors: Floats) -> float:
    return float(np.sqrt(np.mean(np.sum(errors**2, axis=1))))


def _table(truth: Floats, plans: dict[str, AnyPlan], errors: dict[str, Floats]) -> Table:
    table = Table(title="error of a private mean: measured (forecast)")
    for heading in ("column", "true mean", "ball noise", "elliptical noise", "best law"):
        table.add_column(heading, justify="left" if heading == "column" else "right")
    for j, name in enumerate(BOUNDS):
        cells = []
        for kind, mean_plan in plans.items():
            assert mean_plan.noise_std is not None
            cells.append(f"{np.sqrt(np.mean(errors[kind][:, j] ** 2)):.3g} ({mean_plan.noise_std[j]:.3g})")
        table.add_row(name, f"{truth[j]:.6g}", *cells)
    return table


def _draw(folder: Path, plans: dict[str, AnyPlan], errors: dict[str, Floats], console: Console) -> None:
    from ..display.plots.studies import compare_noise
    from ..display.plots.style import available

    if not available():
        console.print("Install ellipsum[plots] for the picture.")
        return
    make_folder(folder)
    path = folder / "demo.png"
    forecasts = {kind: mean_plan.noise_std for kind, mean_plan in plans.items() if mean_plan.noise_std is not None}
    measured = {kind: np.sqrt(np.mean(errors[kind] ** 2, axis=0)) for kind in plans}
    widths = np.array([high - low for low, high in BOUNDS.values()])
    compare_noise(list(BOUNDS), widths, forecasts, measured, path)
    console.print(f"Picture: {str(path)!r}")
