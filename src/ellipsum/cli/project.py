"""`ellipsum project`: rows of a file to private numbers that keep distances."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .app import (
    Bounds,
    Center,
    CenterError,
    Columns,
    Delta,
    Epsilon,
    Files,
    Json,
    NormalRows,
    Radius,
    Yes,
    app,
)

if TYPE_CHECKING:
    from ..projection.outlook import Forecast


@app.command("project")
def project_command(
    files: Files,
    k: Annotated[int | None, typer.Option("--k", help="Numbers to publish a row. Default: of least error.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Parquet file for the projected rows. No default.")
    ] = None,
    columns: Columns = None,
    bounds: Bounds = None,
    radius: Radius = None,
    center: Center = None,
    normal: NormalRows = None,
    center_error: CenterError = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    metric: Annotated[
        str, typer.Option(help="original, or scaled: every column in units of its own spread.")
    ] = "original",
    adversary: Annotated[
        str | None, typer.Option(help="oblivious or adaptive. Default: the one that needs less noise.")
    ] = None,
    calibration: Annotated[str, typer.Option(help="exact, or for comparison tail or composition.")] = "exact",
    clip_probability: Annotated[
        float | None, typer.Option(help="With --normal: share of rows clipped. Default 1/n.")
    ] = None,
    matrix_seed: Annotated[
        str | None, typer.Option(help="Use the matrix of an earlier projection again (adaptive noise).")
    ] = None,
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """Publish every row as a few private numbers that keep distances (one row replaced, n public).

    Example:

        ellipsum project people.csv --k 20 --bounds 0:1 --epsilon 200 --delta 1e-6 --output sketch.parquet
    """
    from ..errors import UsageError
    from ..projection import project
    from ..projection.outlook import ProjectionWarning
    from . import show
    from .inputs import budget_of, rows_of, split_columns

    given = dict(locals())
    budget = budget_of(epsilon, delta)
    rows, chosen = rows_of(given, split_columns(columns))
    if output is None:
        raise UsageError("--output is missing. Name the Parquet file for the projected rows.")
    source = files[0] if len(files) == 1 else files
    against = "adaptive" if matrix_seed is not None else adversary
    forecast = _forecast(source, chosen, k, rows, budget, against, calibration, metric, clip_probability)
    show.errors.print(repr(forecast), markup=False, soft_wrap=True)
    _confirm(forecast, yes)
    with show.progress("projection") as advance, warnings.catch_warnings():
        warnings.simplefilter("ignore", ProjectionWarning)  # the forecast has said it
        made = project(
            source,
            forecast.k,
            rows,
            budget=budget,
            adversary=adversary,
            calibration=calibration,
            metric=metric,
            clip_probability=clip_probability,
            columns=chosen,
            output=output,
            matrix_seed=matrix_seed,
            progress=advance,
        )
    print(made.to_json() if as_json else made)


def _forecast(
    source: Any,
    columns: Any,
    k: int | None,
    rows: Any,
    budget: Any,
    adversary: str | None,
    calibration: str,
    metric: str,
    clip_probability: float | None,
) -> Forecast:
    """Columns and row count are public; nothing else of the data is looked at."""
    from ..projection.outlook import choose_k, projection_forecast
    from ..tables import open_table

    table = open_table(source, columns=columns)
    n = table.rows() if rows.kind == "normal" and clip_probability is None else None
    terms: dict[str, Any] = {"adversary": adversary, "metric": metric, "clip_probability": clip_probability}
    if k is None:
        return choose_k(n, table.width, rows, budget, **terms)
    return projection_forecast(n, table.width, k, rows, budget, calibration=calibration, **terms)


def _confirm(forecast: Forecast, yes: bool) -> None:
    """Ask, on a terminal, before a budget is spent on distances that say nothing."""
    if not forecast.useless or yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if not typer.confirm("Spend the budget all the same?", err=True):
        raise typer.Exit(0)
