"""`ellipsum learn`: what the rows are like, learned privately and kept in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .app import Columns, Delta, Epsilon, Files, Guess, Json, Magnitude, Method, Neighbours, Threads, app


@app.command("learn")
def learn_command(
    files: Files,
    columns: Columns = None,
    magnitude: Magnitude = None,
    method: Method = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    neighbours: Neighbours = "replace",
    n: Guess = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the learned rows here, for --rows FILE.")
    ] = None,
    as_json: Json = False,
    threads: Threads = None,
) -> None:
    """Learn centre and spread of the rows privately, for later releases with --rows.

    Examples:

        ellipsum learn people.csv --magnitude 1e6 --epsilon 0.5 --delta 1e-6 --output rows.json

        ellipsum mean people.csv --rows rows.json --epsilon 1 --delta 1e-6
    """
    from ..errors import UsageError
    from ..files import check_writable
    from ..learning import learn
    from ..rows import Unknown
    from . import show
    from .inputs import budget_of, relation_of, split_columns

    check_writable(output)
    budget = budget_of(epsilon, delta)
    if magnitude is None:
        raise UsageError(
            "--magnitude is missing. State a bound on the size of every entry; a generous one costs little."
        )
    with show.progress("learning") as advance:
        found = learn(
            files[0] if len(files) == 1 else files,
            Unknown(magnitude),
            budget=budget,
            method=method or "auto",
            neighbours=relation_of(neighbours),
            n=n,
            columns=split_columns(columns),
            threads=threads,
            progress=advance,
        )
    if output is not None:
        found.save(output)
    print(found.to_json() if as_json else found)
