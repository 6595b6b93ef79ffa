"""Every command of the command line, in the order that help shows them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...util.interrupts import check_interrupted
from ...version import VERSION
from . import tools
from .ledger import ledger_app
from .options import (
    OPTIONS,
    STATISTICS,
    DataOptions,
    PlainCommand,
    PlainGroup,
    advanced_option,
    flag,
    output_option,
    privacy_option,
    statistic_option,
    typed_options,
    with_options,
)

if TYPE_CHECKING:
    from ... import Learned
    from ...api import AnyPlan
    from ...releases.base import StatisticRelease
    from .output import ReleaseConsole

    Published = StatisticRelease | Learned

app = typer.Typer(
    name="ellipsum",
    cls=PlainGroup,
    help="Publish statistics of numeric tables under differential privacy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ellipsum {VERSION}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", metavar="", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


# Statistics ---------------------------------------------------------------------------------------------


_BOUNDS = "--bounds age=0:120 --bounds income=0:200000 --epsilon 1 --delta 1e-6"


def _add_statistic(statistic: str, purpose: str, example: str, **changed: Any) -> None:
    """Add the command of a statistic; purpose, example: its help; changed: options that it describes otherwise."""

    def command(options: DataOptions) -> None:
        _publish(statistic, options)

    command.__doc__ = f"{purpose}\n\nExample:\n\n    ellipsum {statistic} people.csv {example}"
    app.command(statistic, cls=PlainCommand)(with_options(OPTIONS[statistic], **changed)(command))


_add_statistic("sum", "Publish the differentially private sum of each column.", _BOUNDS)
_add_statistic("mean", "Publish the differentially private mean of each column.", _BOUNDS)
_add_statistic(
    "describe",
    "Publish count, mean, standard deviation and quantiles of each column in one release.",
    _BOUNDS,
    shape=advanced_option("optimal|ball", "Shape of the noise: optimal (default), or ball (the same in every column)."),
)
_add_statistic(
    "quantiles",
    "Publish quantiles of each column; all further quantiles then cost nothing.",
    _BOUNDS,
    bins=statistic_option(
        "BINS", "integer for columns of whole numbers, a number of bins, or edges: 0,10,20. Default: chosen."
    ),
    method=statistic_option(
        "cdf|exponential",
        "cdf (default): all quantiles with intervals; exponential: more accurate for one quantile, without intervals.",
    ),
)
_add_statistic(
    "histogram",
    "Publish the number of values in each bin, or in each listed category.",
    "--bins age=0,18,65,120 --categories city=Bern,Ulm --epsilon 1 --delta 1e-6",
)
_add_statistic(
    "count",
    "Publish the number of rows or people, in total or in each group.",
    "--by city --keys Bern,Ulm --epsilon 1 --delta 0",
)


def _publish(statistic: str, options: DataOptions) -> None:
    from .output import ReleaseConsole, draw, print_result
    from .requests import check_files

    check_files(options)
    with ReleaseConsole(statistic, options) as console:
        run = _run_request if options.plan is None else _run_saved
        release, plan = run(statistic, options, console)
    check_interrupted()
    if options.save_plan is not None:
        plan.save(options.save_plan)
    if options.output is not None:
        release.save(options.output)
    print_result(release, options)
    draw(release, options)


def _run_request(statistic: str, options: DataOptions, console: ReleaseConsole) -> tuple[Published, AnyPlan]:
    """Release what the options ask for, after a person approved the plan; return the plan too."""
    from ...api import prepare_request
    from ...session import read_options
    from .output import forecast_line, print_people
    from .requests import make_request, open_data, parse_account, parse_budget

    request = make_request(statistic, options, parse_budget(options))
    print_people(request.people, request.neighbors, request.stated)
    account = parse_account(options)
    reading = read_options(None, options.threads, console.progress, account, options.request_id)
    with prepare_request(request, open_data(options), reading) as prepared:
        console.approve(prepared.plan, forecast_line(prepared.plan))
        return prepared.release(), prepared.plan


def _run_saved(statistic: str, options: DataOptions, console: ReleaseConsole) -> tuple[Published, AnyPlan]:
    """Release what a saved plan asks for; return the plan too."""
    from ... import UsageError, from_json
    from ...plans.base import StatisticPlan
    from ...util.atomic_files import read_text
    from .output import forecast_line, print_people
    from .parsing import parse_names
    from .requests import check_plan_alone, open_data, parse_account

    check_plan_alone(options)
    plan: AnyPlan = from_json(read_text(Path(str(options.plan)), "plan"))
    if not isinstance(plan, StatisticPlan):
        raise UsageError(f"--plan {options.plan} does not hold a plan. Create one with ellipsum plan --output.")
    if plan.request.statistic != statistic:
        raise UsageError(
            f"--plan {options.plan} is not for {statistic}. Run: ellipsum {plan.request.statistic} ... --plan"
        )
    print_people(plan.request.people, plan.request.neighbors, plan.stated)
    console.approve(plan, forecast_line(plan))
    release = plan.release(
        open_data(options),
        columns=parse_names(options.columns, "--columns"),
        threads=options.threads,
        progress=console.progress,
        ledger=parse_account(options),
        request_id=options.request_id,
    )
    return release, plan


# Plans and learned bounds -------------------------------------------------------------------------------


@app.command("plan", cls=PlainCommand)
@with_options(
    OPTIONS["plan"],
    covariance=statistic_option("", "Of describe: also correlations of the columns."),
    quantiles=statistic_option("LIST|none", "Of describe: probabilities of its quantiles, or none."),
    q=statistic_option("LIST", "Of quantiles: probabilities. Default: 0.25,0.5,0.75."),
    bins=statistic_option("BINS", "Of quantiles or a histogram, as these commands take them."),
    categories=statistic_option("NAME=LIST", "Of a histogram: categories of a column, repeated."),
    n=privacy_option("N", "Number of rows (a guess with add-remove); auto: the fewest that meet --error."),
    output=output_option("FILE", "Write the plan to this file.", flags=("--output", "-o")),
)
def plan_command(options: DataOptions) -> None:
    """Compute the expected error of a release without any data, and save the plan.

    Example:

        ellipsum plan --n 10000 --bounds age=0:120 --bounds income=0:200000 --epsilon 1 --delta 1e-6
    """
    from ...api import plan_request
    from .output import draw, print_result
    from .requests import check_files, make_request, parse_budget, parse_n

    check_files(options)
    _check_statistic(options)
    if options.error is None or options.epsilon is not None or options.delta is None:
        parse_budget(options)
    n = options.n if options.n == "auto" else parse_n(options.n, " or auto")
    plan = plan_request(
        make_request(options.statistic, replace(options, n=None), None),
        n,
        options.d,
        epsilon=options.epsilon,
        delta=options.delta,
        error=options.error,
    )
    if options.output is not None:
        plan.save(options.output)
    print_result(plan, options)
    draw(plan, options)


def _check_statistic(options: DataOptions) -> None:
    """Refuse an option that the command of the statistic does not have."""
    from ... import UsageError
    from ...errors import choice

    accepted = {*OPTIONS[choice("--statistic", options.statistic, STATISTICS)], "statistic", "d", "error", "expected"}
    for name in typed_options(options):
        if name not in accepted:
            raise UsageError(f"{flag(name)} is not an option of {options.statistic}. Leave it out.")


@app.command("learn", cls=PlainCommand)
@with_options(
    OPTIONS["learn"],
    output=output_option("FILE", "Write the bounds here, for --bounds FILE.", flags=("--output", "-o")),
)
def learn_command(options: DataOptions) -> None:
    """Estimate bounds privately and save them; later releases take them with --bounds FILE.

    Example:

        ellipsum learn people.csv --magnitude 1e6 --epsilon 0.5 --delta 1e-6 --output bounds.json

        ellipsum mean people.csv --bounds bounds.json --epsilon 1 --delta 1e-6
    """
    _publish("learn", options)


app.command("project", cls=PlainCommand)(tools.project_command)
app.add_typer(ledger_app)
app.command("audit", cls=PlainCommand)(tools.audit_command)
app.command("studio", cls=PlainCommand)(tools.studio_command)
app.command("demo", cls=PlainCommand)(tools.demo_command)
app.command("reproduce", cls=PlainCommand)(tools.reproduce_command)
