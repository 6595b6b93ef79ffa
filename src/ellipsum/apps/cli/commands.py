"""Every command of the command line, in the order that help shows them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...util.interrupts import check_interrupted
from ...version import VERSION
from . import tools
from .ledger import ledger_app
from .options import (
    DescribeOptions,
    ErrorOptions,
    FileOptions,
    GroupOptions,
    GuessOptions,
    HistogramOptions,
    LearningMethodOptions,
    PeopleOptions,
    PlainCommand,
    PlainGroup,
    PrivacyOptions,
    QuantileOptions,
    ReleaseOptions,
    RunOptions,
    SumOptions,
    VectorOptions,
    input_option,
    output_option,
    people_option,
    privacy_option,
    statistic_option,
    with_options,
)

if TYPE_CHECKING:
    from ...api import AnyPlan
    from ...releases.base import StatisticRelease
    from ...request.request import Request
    from .output import ReleaseConsole

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
_KINDS: dict[str, type[ReleaseOptions]] = {}
"""The options of each statistic."""


def _add_statistic(statistic: str, kind: type[ReleaseOptions], purpose: str, example: str) -> None:
    """Add the command of a statistic; purpose, example: its help."""

    def command(options: ReleaseOptions) -> None:
        _publish(statistic, options)

    command.__doc__ = f"{purpose}\n\nExample:\n\n    ellipsum {statistic} people.csv {example}"
    command.__annotations__["options"] = kind
    app.command(statistic, cls=PlainCommand)(with_options(command))
    _KINDS[statistic] = kind


_add_statistic("sum", SumOptions, "Publish the differentially private sum of each column.", _BOUNDS)
_add_statistic("mean", SumOptions, "Publish the differentially private mean of each column.", _BOUNDS)
_add_statistic(
    "describe",
    DescribeOptions,
    "Publish count, mean and standard deviation of each column in one release.",
    _BOUNDS,
)
_add_statistic(
    "quantiles", QuantileOptions, "Publish quantiles of each column; all further quantiles then cost nothing.", _BOUNDS
)
_add_statistic(
    "histogram",
    HistogramOptions,
    "Publish how many values lie in each bin, or are one of the listed categories.",
    "--bins age=0,18,65,120 --categories city=Bern,Ulm --epsilon 1 --delta 1e-6",
)
_add_statistic(
    "count",
    ReleaseOptions,
    "Publish the number of rows or people, or of those in each group.",
    "--by city --keys Bern,Ulm --epsilon 1 --delta 0",
)


def _publish(statistic: str, options: ReleaseOptions) -> None:
    from .output import ReleaseConsole, draw, print_result
    from .requests import check_targets, warn_of_passwords

    check_targets(options)
    warn_of_passwords(options)
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


def _run_request(statistic: str, options: ReleaseOptions, console: ReleaseConsole) -> tuple[StatisticRelease, AnyPlan]:
    """The release of what the options ask for, and its plan."""
    from .requests import make_request, parse_budget

    return _prepared(make_request(statistic, options, parse_budget(options)), options, console)


def _prepared(request: Request, options: RunOptions, console: ReleaseConsole) -> tuple[Any, AnyPlan]:
    """A request on the data of the options: approved by a person, then released."""
    from ...api import prepare_request
    from .output import forecast_line, print_line
    from .requests import open_data, read_data

    if request.people is not None:
        print_line(_people_line(request))
    with prepare_request(request, open_data(options), read_data(options, console.progress)) as prepared:
        console.approve(prepared.plan, forecast_line(prepared.plan))
        return prepared.release(), prepared.plan


def _people_line(request: Request) -> str:
    """What is known before rows are grouped by person; the forecast needs the number of people."""
    from ... import Privacy
    from ...display.wording import describe_neighbors
    from ...errors import named

    assert request.people is not None
    budget = ", ".join(f"{name} = {value:g}" for name, value in request.stated.items())
    neighbors = describe_neighbors(Privacy(0.0, 0.0, request.neighbors, "person"))
    return f"Grouping rows by {named(request.people.privacy_id)}; the forecast follows. {budget}; {neighbors}"


def _run_saved(statistic: str, options: ReleaseOptions, console: ReleaseConsole) -> tuple[StatisticRelease, AnyPlan]:
    """The release of a saved plan, and that plan."""
    from ... import UsageError, from_json
    from ...plans.base import StatisticPlan
    from ...util.atomic_files import read_text
    from .output import forecast_line, print_line
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
    if plan.request.people is not None:
        print_line(_people_line(plan.request))
    console.approve(plan, forecast_line(plan))
    columns = parse_names(getattr(options, "columns", None), "--columns")
    account = parse_account(options)
    release = plan.release(
        open_data(options),
        columns=columns,
        threads=options.threads,
        progress=console.progress,
        ledger=account,
        request_id=options.request_id,
    )
    return release, plan


# Plans and learned bounds -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PlanOptions(VectorOptions, ErrorOptions, PeopleOptions, GroupOptions, PrivacyOptions, FileOptions):
    """Options of a plan of any statistic."""

    statistic: str = statistic_option(
        "NAME", "mean (default), sum, describe, quantiles, histogram or count.", default="mean"
    )
    covariance: bool = statistic_option("", "Of describe: also correlations of the columns.", default=False)
    quantiles: str | None = statistic_option("LIST|none", "Of describe: probabilities of its quantiles, or none.")
    q: str | None = statistic_option("LIST", "Of quantiles: probabilities. Default: 0.25,0.5,0.75.")
    bins: list[str] | None = statistic_option("BINS", "Of quantiles or a histogram, as these commands take them.")
    categories: list[str] | None = statistic_option("NAME=LIST", "Of a histogram: categories of a column, repeated.")
    n: str | None = privacy_option("N", "Number of rows (a guess with add-remove); auto: the fewest that meet --error.")
    d: int | None = input_option("D", "Number of columns, where no names say it.")
    error: float | None = privacy_option(
        "E", "Root mean square error to meet, all columns together, instead of --epsilon."
    )
    expected: int | None = people_option("N", "With --by: your guess of the number of groups.")
    output: Path | None = output_option("FILE", "Write the plan to this file.", flags=("--output", "-o"))


_PLAN_ONLY = {"statistic", "n", "d", "error", "expected"}


@app.command("plan", cls=PlainCommand)
@with_options
def plan_command(options: PlanOptions) -> None:
    """Compute the expected error of a release without any data, and save its plan.

    Example:

        ellipsum plan --n 10000 --bounds age=0:120 --bounds income=0:200000 --epsilon 1 --delta 1e-6
    """
    from ...api import plan_request
    from .output import draw, print_result
    from .requests import check_targets, make_request, parse_budget, parse_groups

    check_targets(options)
    if options.error is None or options.epsilon is not None or options.delta is None:
        parse_budget(options)
    request = make_request(options.statistic, _of_statistic(options), None)
    plan = plan_request(
        replace(request, groups=parse_groups(options, options.expected)),
        _parse_n(options.n),
        options.d,
        epsilon=options.epsilon,
        delta=options.delta,
        error=options.error,
    )
    if options.output is not None:
        plan.save(options.output)
    print_result(plan, options)
    draw(plan, options)


def _parse_n(text: str | None) -> int | str | None:
    from ... import UsageError

    try:
        return text if text in (None, "auto") else int(text)
    except ValueError:
        raise UsageError(f"--n must be a whole number or auto, got {text!r}.") from None


def _of_statistic(options: PlanOptions) -> ReleaseOptions:
    """The options as the command of the statistic has them; an option of another statistic is refused."""
    from ... import UsageError
    from ...errors import choice

    kind = _KINDS[choice("--statistic", options.statistic, tuple(_KINDS))]
    accepted = {field.name for field in fields(kind)}
    values: dict[str, Any] = {}
    for field in fields(options):
        value = getattr(options, field.name)
        if field.name in _PLAN_ONLY or value in (field.default, []):
            continue
        if field.name not in accepted:
            name = f"--{field.name.replace('_', '-')}"
            raise UsageError(f"{name} is not an option of {options.statistic}. Leave it out.")
        values[field.name] = ",".join(value) if kind is QuantileOptions and field.name == "bins" else value
    return kind(files=[], **values)


@dataclass(frozen=True, kw_only=True)
class LearnOptions(LearningMethodOptions, GuessOptions, RunOptions):
    """Options of learned bounds."""

    output: Path | None = output_option("FILE", "Write the bounds here, for --bounds FILE.", flags=("--output", "-o"))


@app.command("learn", cls=PlainCommand)
@with_options
def learn_command(options: LearnOptions) -> None:
    """Estimate bounds privately and save them; later releases take them with --bounds FILE.

    Example:

        ellipsum learn people.csv --magnitude 1e6 --epsilon 0.5 --delta 1e-6 --output bounds.json

        ellipsum mean people.csv --bounds bounds.json --epsilon 1 --delta 1e-6
    """
    from ...request.request import Request
    from .output import ReleaseConsole, draw, print_result
    from .requests import check_targets, known_bounds, parse_budget, parse_neighbors, parse_people, warn_of_passwords

    check_targets(options)
    warn_of_passwords(options)
    bounds, names = known_bounds(options)
    request = Request(
        "learn",
        bounds,
        parse_budget(options),
        neighbors=parse_neighbors(options),
        n=options.n,
        columns=names,
        people=parse_people(options),
    )
    with ReleaseConsole("bounds", options) as console:
        learned, _ = _prepared(request, options, console)
    check_interrupted()
    if options.output is not None:
        learned.save(options.output)
    print_result(learned, options)
    draw(learned, options)


app.command("project", cls=PlainCommand)(tools.project_command)
app.add_typer(ledger_app)
app.command("audit", cls=PlainCommand)(tools.audit_command)
app.command("studio", cls=PlainCommand)(tools.studio_command)
app.command("demo", cls=PlainCommand)(tools.demo_command)
app.command("reproduce", cls=PlainCommand)(tools.reproduce_command)
