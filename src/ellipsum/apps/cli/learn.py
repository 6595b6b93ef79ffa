"""`ellipsum learn`: what the rows are like, learned privately and kept in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ...util.interrupts import check_interrupted
from .app import (
    BUDGET,
    FILES,
    READING,
    Columns,
    Guess,
    Json,
    Magnitude,
    Method,
    Options,
    Plot,
    Report,
    Yes,
    app,
    source_words,
    takes,
)

_MORE: Options = {
    "columns": (Columns, None),
    "magnitude": (Magnitude, None),
    "method": (Method, None),
    "n": (Guess, None),
    "output": (
        Annotated[Path | None, typer.Option("--output", "-o", help="Write the learned rows here, for --rows FILE.")],
        None,
    ),
    "as_json": (Json, False),
    "plot": (Plot, None),
    "report": (Report, None),
    "yes": (Yes, False),
}


@app.command("learn")
@takes(FILES, _MORE, BUDGET, READING)
def learn_command(**given: Any) -> None:
    """Learn center and spread of the rows privately, for later releases with --rows.

    Examples:

        ellipsum learn people.csv --magnitude 1e6 --epsilon 0.5 --delta 1e-6 --output rows.json

        ellipsum mean people.csv --rows rows.json --epsilon 1 --delta 1e-6
    """
    from ... import api
    from ...errors import UsageError
    from . import show
    from .inputs import (
        budget_of,
        check_targets,
        relation_of,
        split_columns,
        terms_for_people,
        unknown_rows,
    )

    check_targets(given)
    budget = budget_of(given["epsilon"], given["delta"])
    if not given["magnitude"]:
        raise UsageError(
            "--magnitude is missing. State a bound on the size of every entry; a generous one costs little."
        )
    rows, columns = unknown_rows(given["magnitude"], split_columns(given["columns"]))
    with show.ProgressConsole("learning", given["yes"]) as desk:
        if given["privacy_id"] is not None:
            desk.announce(rows, terms_for_people(budget, given))
        found = api.learn(
            rows=rows,
            budget=budget,
            neighbors=relation_of(given["neighbors"]),
            n=given["n"],
            method=given["method"] or "auto",
            columns=columns,
            threads=given["threads"],
            progress=desk.progress,
            approve=desk.approve,
            **source_words(given),
        )
    check_interrupted()
    if given["output"] is not None:
        found.save(given["output"])
    print(found.to_json() if given["as_json"] else found)
    show.say_if_stored(found)
    show.pictures(found, given)
