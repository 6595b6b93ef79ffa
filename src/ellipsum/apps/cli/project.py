"""`ellipsum project`: rows of a file to private numbers that keep distances."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from .app import (
    BUDGET,
    FILES,
    READING,
    ROWS,
    Json,
    Options,
    Plot,
    Report,
    Yes,
    app,
    source_words,
    takes,
)

_SIZE: Options = {
    "k": (
        Annotated[int | None, typer.Option("--k", help="Numbers per row. Default: of least error.")],
        None,
    ),
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
    "plot": (Plot, None),
    "report": (Report, None),
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
    from ...errors import UsageError
    from ...projection import ProjectionWarning, project
    from . import show
    from .inputs import budget_of, check_targets, rows_of, split_columns

    check_targets(given)
    budget = budget_of(given["epsilon"], given["delta"])
    rows, chosen = rows_of(given, split_columns(given["columns"]))
    if given["output"] is None:
        raise UsageError("--output is missing. Name the Parquet file for the projected rows.")
    stated = {name: given[name] for name in (*_MORE, "k", "output") if name not in ("as_json", "yes", "plot", "report")}
    with show.ProgressConsole("projection", given["yes"]) as desk, warnings.catch_warnings():
        warnings.simplefilter("ignore", ProjectionWarning)  # the forecast has said it
        if given["privacy_id"] is not None:
            desk.announce(
                rows, f"epsilon = {given['epsilon']:g}, delta = {given['delta']:g}; one person replaced, n public"
            )
        how: dict[str, Any] = {"progress": desk.progress, "approve": desk.approve}
        made = project(rows=rows, budget=budget, columns=chosen, **stated, **source_words(given), **how)
    print(made.to_json() if given["as_json"] else made)
    show.pictures(made, given)
