"""`ellipsum project | audit | studio | demo | reproduce`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import typer

from .options import (
    OPTIONS,
    DataOptions,
    advanced_option,
    argument,
    input_option,
    output_option,
    statistic_option,
    with_options,
)

_NEEDS = "ellipsum studio needs a few more packages. Install them with: pip install 'ellipsum[studio]'"


@dataclass(kw_only=True)
class ToolOptions:
    """Every option of these commands except project. Options that a command does not accept keep their defaults."""

    mechanism: str | None = argument(
        "MECHANISM", "The mechanism to audit. Without it the names are listed.", default=None
    )
    runs: int | None = statistic_option("N", "Runs on each data set. The default depends on the mechanism.")
    confidence: float = statistic_option("C", "Confidence of each bound. Default: 0.99.", default=0.99)
    whole: bool = statistic_option("", "Run whole releases instead of drawing noise in batches.", default=False)
    stop: bool = statistic_option("", "End as soon as the runs contradict the claim.", default=False)
    processes: int | None = advanced_option("N", "Processes to use. Default: all cores if single runs are slow.")
    as_json: bool = output_option("", "Print only JSON on standard output.", flags=("--json",), default=False)
    plot: Path | None = output_option("FILE", "Draw it to a .svg, .png or .pdf file.")
    file: str | None = argument("FILE", "A CSV, Parquet or Feather file to begin with.", default=None)
    port: int | None = input_option("PORT", "Port; 0 takes any. Default: 8642, or the next free one.")
    no_open: bool = input_option("", "Print the address and do not open a browser.", default=False)
    host: str = advanced_option(
        "ADDRESS", "Address to listen at. Only this machine can reach the default.", default="127.0.0.1"
    )
    allow_network: bool = advanced_option("", "Allow a --host that other machines can reach.", default=False)
    rows: int = statistic_option("N", "Rows of generated data. Default: 20,000.", default=20_000)
    quick: bool = statistic_option("", "Fewer points, for a first look.", default=False)
    output: Path | None = output_option("FOLDER", "Folder for figures and tables.", flags=("--output", "-o"))


# Projections --------------------------------------------------------------------------------------------


@with_options(
    OPTIONS["project"],
    output=output_option("FILE", "Parquet file for the projected rows. No default.", flags=("--output", "-o")),
)
def project_command(options: DataOptions) -> None:
    """Publish every row as a few private numbers that preserve distances (one row replaced, n public).

    Example:

        ellipsum project people.csv --k 20 --bounds 0:1 --epsilon 200 --delta 1e-6 --output sketch.parquet
    """
    from ... import ProjectionWarning, UsageError, project
    from .output import ReleaseConsole, draw, print_people, print_result
    from .requests import check_files, open_data, parse_account, parse_budget, parse_people, parse_values

    check_files(options)
    bounds, names = parse_values("project", options)
    budget = parse_budget(options)
    if options.output is None:
        raise UsageError("--output is missing. Name the Parquet file for the projected rows.")
    people = parse_people(options)
    print_people(people, "replace", dict(budget.stated))
    with ReleaseConsole("projection", options) as console, warnings.catch_warnings():
        warnings.simplefilter("ignore", ProjectionWarning)  # the forecast has it
        projection = project(
            open_data(options),
            options.k,
            bounds,
            budget=budget,
            columns=names,
            metric=options.metric,
            adversary=options.adversary,
            calibration=options.calibration,
            matrix_seed=options.matrix_seed,
            privacy_id=people,
            ledger=parse_account(options),
            request_id=options.request_id,
            output=options.output,
            progress=console.progress,
            approve=console.approve,
        )
    print_result(projection, options)
    draw(projection, options)


# Audits -------------------------------------------------------------------------------------------------


@with_options(["mechanism", "runs", "confidence", "whole", "stop", "processes", "as_json", "plot"])
def audit_command(options: ToolOptions) -> None:
    """Run a mechanism many times on two neighboring data sets and bound its privacy loss from below.

    Example:

        ellipsum audit sum-ball --runs 100000
    """
    from ... import audit
    from ...util import json_codec
    from ..audit.cases import CASES, case_of
    from .output import stages
    from .requests import check_plot

    if options.mechanism is None:
        typer.echo("\n".join(CASES))
        return
    case = case_of(options.mechanism)
    check_plot(options.plot)
    with stages() as advance:
        result = audit(
            case.whole if options.whole and case.whole is not None else case.mechanism,
            case.pair,
            runs=case.runs if options.runs is None else options.runs,
            confidence=options.confidence,
            claim=case.claim if options.stop else None,
            processes=options.processes,
            progress=lambda share: advance("runs", share),
        )
    if options.plot is not None:
        result.plot(options.plot, case.claim)
    is_contradicted = result.contradicts(case.claim)
    if options.as_json:
        own = {"mechanism": options.mechanism, "claimed": str(case.claim), "contradicted": is_contradicted}
        typer.echo(json_codec.dump({**result.to_dict(), **own}))
        return
    verdict = "CONTRADICTED by these runs" if is_contradicted else "not contradicted"
    typer.echo(f"{result}\n  Claimed     {case.claim}: {verdict}")


# Studio, demo, reproduction -----------------------------------------------------------------------------


@with_options(["file", "port", "no_open", "host", "allow_network"])
def studio_command(options: ToolOptions) -> None:
    """Choose bounds and budget, see the expected error and release, in a browser on this machine.

    Example:

        ellipsum studio people.csv
    """
    from ... import UsageError
    from ...errors import visible

    try:
        from ..studio.serve import run
    except ImportError:
        raise UsageError(_NEEDS) from None
    if options.allow_network:
        typer.echo("warning: other machines can reach this studio, and the network is not encrypted.", err=True)
    say = lambda line: typer.echo(visible(line))  # noqa: E731
    run(options.file, options.host, options.port, options.allow_network, not options.no_open, say)


@with_options(["rows", "output"])
def demo_command(options: ToolOptions) -> None:
    """Release the mean of generated data many times, and compare measured errors with expected ones.

    Example:

        ellipsum demo
    """
    from ..demo import run_demo
    from .output import stages

    with stages() as advance:
        run_demo(options.output or Path("out"), options.rows, advance)


@with_options(["quick", "output"])
def reproduce_command(options: ToolOptions) -> None:
    """Draw the figures of the report that the library is based on, with exact quantiles.

    Example:

        ellipsum reproduce --quick
    """
    from ...errors import visible
    from ..reproduce import reproduce
    from .output import stages

    with stages() as advance:
        written = reproduce(options.output or Path("out/reproduce"), advance, options.quick)
    for path in written:
        typer.echo(visible(str(path)))
