"""`ellipsum audit`: what the library's own mechanisms give away, measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .app import Json, app


@app.command("audit")
def audit_command(
    mechanism: Annotated[
        str | None, typer.Argument(metavar="[MECHANISM]", help="What to audit. Without it the names are listed.")
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Runs on each data set. Default: what suits the mechanism.")] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of each bound.")] = 0.99,
    whole: Annotated[
        bool, typer.Option("--whole", help="Run the whole release each time instead of drawing its noise in batches.")
    ] = False,
    processes: Annotated[
        int | None, typer.Option(help="Processes to run it in. Default: as many as are of use.")
    ] = None,
    stop: Annotated[bool, typer.Option("--stop", help="End the runs as soon as they contradict the claim.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Write a picture of claimed and audited curves to this file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a mechanism on made-up neighboring data sets, and show what it gives away at least.

    Examples:

        ellipsum audit

        ellipsum audit sum-ball --runs 100000 --plot audit.png
    """
    from ...util.atomic_files import check_writable
    from ..audit.cases import CASES, case_of
    from .inputs import check_picture

    if mechanism is None:
        for name in CASES:
            typer.echo(name)
        return
    case = case_of(mechanism)
    check_picture(plot)
    check_writable(plot)
    chosen = case.whole if whole and case.whole is not None else case.mechanism
    words = {"runs": case.runs if runs is None else runs, "confidence": confidence, "processes": processes}
    made = _audited(chosen, case, words | {"claim": case.claim if stop else None})
    if plot is not None:
        made.plot(plot, case.claim)
    typer.echo(_json(made, case, mechanism) if as_json else f"{made}\n{_verdict(made, case)}")


def _audited(mechanism: Any, case: Any, words: dict[str, Any]) -> Any:
    from ..audit import audit
    from . import show

    with show.stages() as advance:
        return audit(mechanism, case.pair, progress=lambda share: advance("runs", share), **words)


def _verdict(made: Any, case: Any) -> str:
    broken = "CONTRADICTED by these runs" if made.contradicts(case.claim) else "not contradicted"
    return f"  claimed         {case.claim}: {broken}"


def _json(made: Any, case: Any, mechanism: str) -> str:
    from ...util import json_codec

    return json_codec.dump(
        {
            **made.to_dict(),
            "mechanism": mechanism,
            "claimed": str(case.claim),
            "contradicted": made.contradicts(case.claim),
        }
    )
