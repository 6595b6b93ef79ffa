"""`ellipsum learn`: what the rows are like, learned privately and kept in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..interrupts import check_interrupted
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
    app,
    people_in,
    reading,
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
}


@app.command("learn")
@takes(FILES, _MORE, BUDGET, READING)
def learn_command(**given: Any) -> None:
    """Learn centre and spread of the rows privately, for later releases with --rows.

    Examples:

        ellipsum learn people.csv --magnitude 1e6 --epsilon 0.5 --delta 1e-6 --output rows.json

        ellipsum mean people.csv --rows rows.json --epsilon 1 --delta 1e-6
    """
    from ..errors import UsageError
    from ..learning import learn_from
    from ..rows import Unknown
    from . import show
    from .inputs import budget_of, check_targets, relation_of, split_columns

    check_targets(given)
    budget = budget_of(given["epsilon"], given["delta"])
    if given["magnitude"] is None:
        raise UsageError(
            "--magnitude is missing. State a bound on the size of every entry; a generous one costs little."
        )
    people, rows = people_in(given), Unknown(given["magnitude"])
    method, relation = given["method"] or "auto", relation_of(given["neighbours"])
    with reading(given, split_columns(given["columns"]), people) as table, show.progress("learning") as advance:
        how = {"threads": given["threads"], "progress": advance}
        found = learn_from(table, rows, budget, relation, given["n"], method, people, **how)
    check_interrupted()
    if given["output"] is not None:
        found.save(given["output"])
    print(found.to_json() if given["as_json"] else found)
