"""`ellipsum demo`: expected and measured errors of two mechanisms on a generated table.

The true error is shown because the table is generated; on real data it may never be published.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from .. import Box, Plan, plan
from ..errors import Floats, whole
from ..plans.base import simulate
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
    """A table of n invented people with skewed incomes, hours that depend on age, and a few outliers."""
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


def run_demo(folder: Path, rows: int, advance: Callable[[str, float], None]) -> None:
    """Release the mean with isotropic Gaussian noise and with the defaults; print a table and draw a picture.

    advance: called with the name of a stage and its finished share.
    """
    n = whole("--rows", rows, 2)
    console = Console(highlight=False, markup=False)
    console.print(
        f"Private means of {n:,} invented people, {len(BOUNDS)} columns, epsilon = {EPSILON:g}, delta = {DELTA:g}, "
        "one row replaced."
    )
    data = generate_people(n)
    truth = data.mean(axis=0)
    plans = make_plans(n)
    errors = {name: measure(mean_plan, data, truth, partial(advance, name)) for name, mean_plan in plans.items()}
    console.print(_table(plans, errors))
    console.print(f"Errors are root mean squares over {REPEATS} releases, compared with the mean of the table.")
    console.print(_clamping(data, truth))
    _draw(folder, plans, errors, console)


def make_plans(n: int) -> dict[str, Plan]:
    """The two plans to compare: the isotropic Gaussian mechanism, and the defaults of `es.mean`."""
    terms: dict[str, Any] = {"n": n, "epsilon": EPSILON, "delta": DELTA}
    isotropic = plan("mean", Box(BOUNDS, shape="ball"), noise="gaussian", missing="none", count_clipped=False, **terms)
    default = plan("mean", BOUNDS, **terms)
    assert isinstance(isotropic, Plan)
    assert isinstance(default, Plan)
    return {"isotropic Gaussian": isotropic, "ellipsum": default}


def expected(mean_plan: Plan) -> Floats:
    """The expected error of each column; it is known because n is."""
    assert mean_plan.expected_error is not None
    return mean_plan.expected_error


def measure(mean_plan: Plan, data: Floats, truth: Floats, advance: Callable[[float], None]) -> Floats:
    """The errors of REPEATS releases, one row for each."""
    errors = []
    for done in range(REPEATS):
        advance(done / REPEATS)
        errors.append(simulate(mean_plan, data).value - truth)
    advance(1.0)
    return np.stack(errors)


def _clamping(data: Floats, truth: Floats) -> str:
    """The effect of clamping, which is in the measured errors and not in the expected ones."""
    lower, upper = np.array(list(BOUNDS.values())).T
    clamped = np.clip(data, lower, upper)
    moved = clamped.mean(axis=0) - truth
    far = int(np.argmax(np.abs(moved) / (upper - lower)))
    return (
        f"{int((clamped != data).sum())} values are outside their bounds and were clamped. This changes the mean of "
        f"{list(BOUNDS)[far]} by {abs(moved[far]):.3g}, which the expected errors do not include."
    )


def _table(plans: dict[str, Plan], errors: dict[str, Floats]) -> Table:
    table = Table(title="error of a private mean: expected (measured)")
    for heading in ("column", "range", *plans):
        table.add_column(heading, justify="left" if heading == "column" else "right")
    for j, (name, (low, high)) in enumerate(BOUNDS.items()):
        pairs = [
            (expected(mean_plan)[j], np.sqrt(np.mean(errors[kind][:, j] ** 2))) for kind, mean_plan in plans.items()
        ]
        cells = [f"{brief(expected)} ({brief(measured)})" for expected, measured in pairs]
        table.add_row(name, f"{high - low:,.0f}", *cells)
    return table


def brief(error: float) -> str:
    """An error with two digits, or a whole number from 10 on."""
    return f"{error:,.0f}" if error >= 10 else f"{error:.2g}"


def _draw(folder: Path, plans: dict[str, Plan], errors: dict[str, Floats], console: Console) -> None:
    from ..display.plots.drawing import available
    from ..display.plots.studies import compare_noise

    if not available():
        console.print("Install ellipsum[plots] for the picture.")
        return
    make_folder(folder)
    path = folder / "demo.png"
    forecasts = {kind: expected(mean_plan) for kind, mean_plan in plans.items()}
    measured = {kind: np.sqrt(np.mean(errors[kind] ** 2, axis=0)) for kind in plans}
    widths = np.array([high - low for low, high in BOUNDS.values()])
    compare_noise(list(BOUNDS), widths, forecasts, measured, path)
    console.print(f"Picture: {str(path)!r}")
