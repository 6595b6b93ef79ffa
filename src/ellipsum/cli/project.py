"""`ellipsum project`: rows of a file to private numbers that keep distances."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .app import BUDGET, FILES, READING, ROWS, Json, Options, Yes, app, people_in, reading, takes

if TYPE_CHECKING:
    from ..projection.outlook import Forecast
    from ..projection.run import Terms

_SIZE: Options = {
    "k": (Annotated[int | None, typer.Option("--k", help="Numbers to publish a row. Default: of least error.")], None),
    "output": (
        Annotated[Path | None, typer.Option("--output", "-o", help="Parquet file for the projected rows. No default.")],
        None,
    ),
}
_BOUNDED: Options = {name: ROWS[name] for name in ("columns", "bounds", "radius", "center", "normal", "center_error")}
_SPEND: Options = {name: BUDGET[name] for name in ("epsilon", "delta")}
_MORE: Options = {
    "metric": (
        Annotated[str, typer.Option(help="original, or scaled: every column in units of its own spread.")],
        "original",
    ),
    "adversary": (
        Annotated[str | None, typer.Option(help="oblivious or adaptive. Default: the one that needs less noise.")],
        None,
    ),
    "calibration": (Annotated[str, typer.Option(help="exact, or for comparison tail or composition.")], "exact"),
    "clip_probability": (
        Annotated[float | None, typer.Option(help="With --normal: share of rows clipped. Default 1/n.")],
        None,
    ),
    "matrix_seed": (
        Annotated[str | None, typer.Option(help="Use the matrix of an earlier projection again (adaptive noise).")],
        None,
    ),
    "as_json": (Json, False),
    "yes": (Yes, False),
}
_SOURCE: Options = {name: kind for name, kind in READING.items() if name != "threads"}


@app.command("project")
@takes(FILES, _SIZE, _BOUNDED, _SPEND, _MORE, _SOURCE)
def project_command(**given: Any) -> None:
    """Publish every row as a few private numbers that keep distances (one row replaced, n public).

    Examples:

        ellipsum project people.csv --k 20 --bounds 0:1 --epsilon 200 --delta 1e-6 --output sketch.parquet

        ellipsum project visits.csv --k 20 --bounds 0:1 --privacy-id name --epsilon 200 --delta 1e-6 -o sketch.parquet
    """
    from ..errors import UsageError
    from ..projection.outlook import ProjectionWarning
    from ..projection.run import Terms, project_table
    from . import show
    from .inputs import budget_of, check_targets, rows_of, split_columns

    check_targets(given)
    budget = budget_of(given["epsilon"], given["delta"])
    rows, chosen = rows_of(given, split_columns(given["columns"]))
    if given["output"] is None:
        raise UsageError("--output is missing. Name the Parquet file for the projected rows.")
    stated = {name: given[name] for name in (*_MORE, "output") if name not in ("as_json", "yes")}
    terms, people = Terms(given["k"], rows, budget, **stated), people_in(given)
    with reading(given, chosen, people) as table:
        forecast = _forecast(table, terms)
        show.errors.print(repr(forecast), markup=False, soft_wrap=True)
        _confirm(forecast, given["yes"])
        with show.progress("projection") as advance, warnings.catch_warnings():
            warnings.simplefilter("ignore", ProjectionWarning)  # the forecast has said it
            made = project_table(table, replace(terms, k=forecast.k), people, progress=advance)
    print(made.to_json() if given["as_json"] else made)


def _forecast(table: Any, terms: Terms) -> Forecast:
    """Columns and row count are public; nothing else of the data is looked at."""
    from ..projection.outlook import choose_k, projection_forecast

    n = table.rows() if terms.rows.kind == "normal" and terms.clip_probability is None else None
    how: dict[str, Any] = {
        "adversary": terms.against,
        "metric": terms.metric,
        "clip_probability": terms.clip_probability,
    }
    if terms.k is None:
        return choose_k(n, table.width, terms.rows, terms.budget, **how)
    how["calibration"] = terms.calibration
    return projection_forecast(n, table.width, terms.k, terms.rows, terms.budget, **how)


def _confirm(forecast: Forecast, yes: bool) -> None:
    """Ask, on a terminal, before a budget is spent on distances that say nothing."""
    if not forecast.useless or yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if not typer.confirm("Spend the budget all the same?", err=True):
        raise typer.Exit(0)
