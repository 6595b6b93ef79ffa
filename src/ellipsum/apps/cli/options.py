"""The options of the commands; nothing heavy is imported, so that help comes at once.

Commands that read data or plan share `DataOptions`; `OPTIONS` lists what each of them accepts. A command's function
takes one object of options, and `with_options` lets typer see its fields.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import partial
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from ...suggestions import unknown_option

PANELS = (
    "Statistic",
    "Privacy",
    "Bounds: what you know about the values",
    "Input",
    "Groups and people",
    "Output",
    "Budget ledger",
    "Advanced",
)


def option(
    panel: str,
    metavar: str,
    help: str,
    *,
    default: object = None,
    flags: tuple[str, ...] = (),
    envvar: str | None = None,
) -> Any:
    """A field that is an option; help shows it in this panel. A flag has an empty metavar."""
    described = {"metavar": metavar, "help": help, "rich_help_panel": panel, "show_default": False, "envvar": envvar}
    return field(default=default, metadata={"flags": flags, "option": described})


def argument(metavar: str, help: str, *, envvar: str | None = None, **default: Any) -> Any:
    """A field that is the positional argument, which is required unless it has a default."""
    described = {"metavar": metavar, "help": help, "show_default": False, "envvar": envvar}
    return field(**default, metadata={"argument": described})


statistic_option, privacy_option, bounds_option, input_option = (partial(option, panel) for panel in PANELS[:4])
people_option, output_option, ledger_option, advanced_option = (partial(option, panel) for panel in PANELS[4:])


@dataclass(kw_only=True)
class DataOptions:
    """Every option of commands that read data or plan. Options that a command does not accept keep their defaults."""

    files: list[str] = argument(
        "FILE",
        "CSV, Parquet or Feather files, a folder, a pattern or, with --sql, a database.",
        default_factory=list,
    )

    statistic: str = statistic_option(
        "NAME", "mean (default), sum, describe, quantiles, histogram or count.", default="mean"
    )
    covariance: bool = statistic_option(
        "",
        "Also correlations of the columns, for up to 1.42 times the noise; needs --missing drop_row or none.",
        default=False,
    )
    quantiles: str | None = statistic_option(
        "LIST|none",
        "Probabilities of the quantiles, which get half of the budget; none leaves them out. Default: 0.25,0.5,0.75.",
    )
    q: str | None = statistic_option("LIST", "Probabilities of the quantiles. Default: 0.25,0.5,0.75.")
    bins: list[str] | None = statistic_option(
        "NAME=EDGES", "Edges of the bins of a column, repeated: age=0,18,65,120. The outermost may be -inf and inf."
    )
    categories: list[str] | None = statistic_option("NAME=LIST", "Categories of a column, repeated: city=Bern,Ulm.")
    k: int | None = statistic_option("K", "Number of values of each projected row. Default: chosen, see the forecast.")
    metric: str = statistic_option(
        "original|scaled",
        "Distances to keep: original (default), or scaled: every column relative to its range.",
        default="original",
    )
    matrix_seed: str | None = statistic_option("SEED", "Use the matrix of an earlier projection again.")

    epsilon: float | None = privacy_option(
        "NUMBER", "Privacy-loss parameter epsilon. Smaller is more private. No default."
    )
    delta: float | None = privacy_option(
        "NUMBER", "Privacy-loss parameter delta, such as 1e-6; 0 for pure differential privacy. No default."
    )
    neighbors: str = privacy_option(
        "replace|add-remove",
        "Neighboring data sets: replace one row (the number of rows is public; default), or add or remove one row "
        "(it is private).",
        default="replace",
    )
    n: str | None = privacy_option("N", "With --neighbors add-remove: your public guess of the number of rows.")
    error: float | None = privacy_option(
        "E", "Root mean square error to meet, all columns together, instead of --epsilon."
    )
    adversary: str | None = privacy_option(
        "oblivious|adaptive", "Whether an adversary may choose rows that depend on the matrix."
    )

    bounds: list[str] | None = bounds_option(
        "NAME=LO:HI",
        "Lower and upper bound of a column, repeated for each; LO:HI for every column; or a file: JSON or CSV "
        "with bounds, or what ellipsum learn wrote.",
    )
    radius: float | None = bounds_option(
        "R", "Largest L2 distance of a row from --center; farther rows are clipped, incomplete rows dropped."
    )
    center: str | None = bounds_option("C", "With --radius: a number, or one per column: 1,2,3. Default: 0.")
    normal: list[str] | None = bounds_option(
        "NAME=MEAN:STD", "Approximate mean and standard deviation of a column, repeated; or a JSON or CSV file of them."
    )
    center_error: float | None = bounds_option(
        "E", "With --normal: how far the means may be off, in standard deviations. Default: 0.1."
    )
    magnitude: list[str] | None = bounds_option(
        "M|NAME=M", "Only |value| <= M is known, for all columns or for each: bounds are estimated privately."
    )
    method: str | None = bounds_option("NAME", "With --magnitude: how to estimate. Default: auto.")

    columns: str | None = input_option(
        "NAMES", "Columns to use, in this order: a,b. Default: those with bounds, or all."
    )
    header: bool = input_option(
        "", "The first line of a CSV file names the columns although it holds numbers.", default=False
    )
    sql: str | None = input_option(
        "QUERY",
        "A SELECT to run; FILE is then a database: duckdb:///file.db, sqlite:///file.db (four slashes before an "
        "absolute path) or postgresql://user@host/name, its password in PGPASSWORD or ~/.pgpass.",
    )
    missing: str | None = input_option(
        "RULE",
        "Missing values: skip (default), drop_row, none (the columns are complete), or a number to fill in, or one "
        "per column: 1,2,3.",
    )
    d: int | None = input_option("D", "Number of columns, where no names say it.")

    privacy_id: str | None = people_option(
        "COLUMN", "Column that identifies people, who may have several rows: each person is protected as a whole."
    )
    per_person: str | None = people_option(
        "mean|sum|rows",
        "With --privacy-id: combine the rows of a person to their mean (default) or sum, or keep single rows, up to "
        "--max-rows.",
    )
    max_rows: int | None = people_option(
        "N", "With --privacy-id: the largest number of rows of a person that are used."
    )
    by: str | None = people_option("COLUMNS", "Grouping columns: a,b. One result for each group.")
    keys: list[str] | None = people_option(
        "LIST",
        "With --by: the groups, if they are public: a,b,c; NAME=a,b,c for each of several columns; or a CSV file. "
        "Default: groups are selected privately.",
    )
    max_per_person: int = people_option(
        "N", "With --by and --privacy-id: the largest number of groups of a person. Default: 1.", default=1
    )
    expected: int | None = people_option("N", "With --by: your guess of the number of groups.")

    as_json: bool = output_option("", "Print only JSON on standard output.", flags=("--json",), default=False)
    plot: Path | None = output_option("FILE", "Draw it to a .svg, .png or .pdf file.")
    report: Path | None = output_option("FILE", "Write a report as one HTML file.")
    verbose: bool = output_option(
        "", "Show the whole plan before the release, not one line.", flags=("--verbose", "-v"), default=False
    )
    yes: bool = output_option(
        "", "Do not ask for confirmation when the expected error is large.", flags=("--yes", "-y"), default=False
    )
    output: Path | None = output_option(
        "FILE", "Write the release to a JSON file; groups to CSV if its name ends so.", flags=("--output", "-o")
    )
    save_plan: Path | None = output_option("FILE", "Write the plan, which holds public numbers only.")

    ledger: str | None = ledger_option(
        "LEDGER", "Charge the release to this ledger (see ellipsum ledger init).", envvar="ELLIPSUM_LEDGER"
    )
    dataset: str | None = ledger_option("NAME", "With --ledger: the data set, perhaps with a version: name@2026.")
    request_id: str | None = ledger_option(
        "ID",
        "With --ledger: a name for this request; a retry with the same name returns the stored release without a "
        "new charge.",
    )
    analyst: str | None = ledger_option("NAME", "With --ledger: the name of the analyst, where analysts have limits.")

    clip_probability: float | None = advanced_option(
        "P", "With --clip quantile: share of rows that is clipped. Default: 1/n."
    )
    shape: str = advanced_option(
        "optimal|ball|closed_form",
        "Shape of the noise: optimal (default), ball (the same in every column), closed_form (--normal).",
        default="optimal",
    )
    clip: str = advanced_option("RULE", "With --normal: optimal (default), quantile, or a radius.", default="optimal")
    engine: str | None = advanced_option("spark", "Let Spark read and sum the data (Parquet, Delta).")
    noise: str = advanced_option(
        "auto|gaussian|knorm",
        "Mechanism: auto (default) takes the one with the smallest expected error; gaussian; knorm (K-norm, "
        "Laplace for one column).",
        default="auto",
    )
    error_weights: str | None = advanced_option(
        "RULE",
        "Which error to minimize: relative to the range of each column (default for named columns), equal "
        "(original units), or weights: 1,5,2.",
    )
    no_count_clipped: bool = advanced_option(
        "",
        "Do not count clamped values: a little less noise, but intervals and warnings cannot reflect clamping.",
        default=False,
    )
    plan: str | None = advanced_option("FILE", "Run a saved plan; it holds bounds, budget and columns.")
    calibration: str = advanced_option("exact|tail|composition", "How noise is calibrated.", default="exact")
    threads: int | None = advanced_option("N", "Threads to use. Default: all cores.")


_INPUT = "files header sql engine"
_PEOPLE = "privacy_id per_person max_rows"
_LEDGER = "ledger dataset request_id analyst"
_REPORT = "as_json plot report verbose yes output"
_BALL = "bounds radius center normal center_error clip_probability"
_VECTOR = f"{_BALL} magnitude method shape clip"
_RUN = f"epsilon delta neighbors n {_INPUT} {_PEOPLE} {_LEDGER} {_REPORT} threads"
_RELEASE = f"{_RUN} by keys max_per_person noise save_plan plan"
_SUM = f"columns {_RELEASE} {_VECTOR} missing error_weights no_count_clipped"
_STATISTICS = {
    "sum": _SUM,
    "mean": _SUM,
    "describe": f"columns {_RELEASE} bounds shape missing error_weights no_count_clipped covariance quantiles",
    "quantiles": f"columns {_RELEASE} bounds magnitude missing q bins method",
    "histogram": f"{_RELEASE} bins categories",
    "count": _RELEASE,
}
_PLAN = (
    f"statistic covariance quantiles q bins categories epsilon delta neighbors n error columns missing d {_VECTOR} "
    f"{_PEOPLE} by keys max_per_person expected noise error_weights no_count_clipped as_json plot output"
)
_PROJECT = (
    f"k metric matrix_seed epsilon delta adversary columns {_INPUT} {_BALL} {_PEOPLE} {_LEDGER} {_REPORT} calibration"
)
OPTIONS = {
    command: names.split()
    for command, names in {
        **_STATISTICS,
        "plan": _PLAN,
        "learn": f"columns {_RUN} magnitude method",
        "project": _PROJECT,
    }.items()
}
"""The options of each command that reads data or plans."""
STATISTICS = tuple(_STATISTICS)
RUN_OPTIONS = {*f"{_INPUT} {_LEDGER} {_REPORT} save_plan plan columns threads".split()}
"""Options that affect how a request is run, and not the request itself."""


def flag(name: str) -> str:
    """The option of a field, as it is typed."""
    return f"--{name.replace('_', '-')}"


def typed_options(options: DataOptions) -> list[str]:
    """The names of the options that differ from their defaults."""
    return [each.name for each in fields(options) if getattr(options, each.name) not in (each.default, [])]


_ARGUMENTS = (
    "bounds|bins|by|categories|center|columns|covariance|d|delta|epsilon|error|error_weights|expected|keys|magnitude|"
    "max_per_person|max_rows|method|metric|missing|n|neighbors|noise|per_person|privacy_id|q|quantiles|radius|request_id"
)
"""Arguments that messages of the library name, and that are options of the same name."""
Given = TypeVar("Given")


def with_options(names: list[str], **changed: Any) -> Callable[[Callable[[Given], None]], Any]:
    """Let typer see the fields of a command's options as the command's own parameters, by panel.

    names: the fields that this command accepts, in order. changed: fields that this command describes otherwise.
    """

    def decorate(command: Callable[[Given], None]) -> Callable[..., None]:
        (kind,) = (hint for name, hint in get_type_hints(command).items() if name != "return")
        hints, described = get_type_hints(kind), {each.name: each for each in fields(kind)}
        parameters = [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=Parameter.empty if described[name].default is MISSING else described[name].default,
                annotation=Annotated[hints[name], _describe_field(name, changed.get(name, described[name]))],
            )
            for name in names
        ]

        def run(**values: object) -> None:
            from ... import AccuracyWarning

            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AccuracyWarning)  # The warnings of a release are printed with it.
                command(kind(**values))

        run.__doc__, run.__name__ = command.__doc__, command.__name__
        run.__signature__ = Signature(sorted(parameters, key=_panel_place))  # type: ignore[attr-defined]
        return run

    return decorate


def _describe_field(name: str, described: Field[Any]) -> Any:
    """The description of a field for typer."""
    if "argument" in described.metadata:
        return typer.Argument(**described.metadata["argument"])
    return typer.Option(*(described.metadata["flags"] or (flag(name),)), **described.metadata["option"])


def _panel_place(parameter: Parameter) -> int:
    """The place of a parameter's panel in help; arguments come first."""
    panel = getattr(parameter.annotation.__metadata__[0], "rich_help_panel", None)
    return PANELS.index(panel) if panel in PANELS else -1


class PlainCommand(TyperCommand):
    """A command whose help shows metavars, and no types of Python."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group of commands with such help."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


def _without_types(params: list[Any]) -> list[Any]:
    for param in params:
        param.metavar = param.metavar or ""
        if isinstance(param, TyperArgument):
            param.display_type_rich = lambda ctx: None  # type: ignore[method-assign]
    return params


# Messages in the words of a shell ------------------------------------------------------------------------


def name_options(message: str) -> str:
    """Replace arguments in a message of the library by options: --n auto for n='auto'."""

    def option(name: str) -> str:
        return "--columns or --bounds" if name == "columns" else f"--{name.replace('_', '-')}"

    def argument(found: re.Match[str]) -> str:
        return f"{option(found[1])} {found[3] or found[4] or ''}".strip()

    message = message.replace("count_clipped=False", "--no-count-clipped")
    message = re.sub(rf"^({_ARGUMENTS})(?= (?:must|is|has|names|needs|holds)\b)", lambda m: option(m[1]), message)
    message = re.sub(rf"\(from ({_ARGUMENTS})\)", lambda m: f"(from {option(m[1])})", message)
    return re.sub(rf"(?<![\w-])({_ARGUMENTS})=(?:(['\"])(.*?)\2|(\w+)\b)?", argument, message)


def unknown_option_message(error: Any) -> str | None:
    """The message for the parser's error about an option that a command does not have; None for other errors."""
    context, name = getattr(error, "ctx", None), getattr(error, "option_name", None)
    if context is None or not isinstance(name, str) or not name.startswith("--"):
        return None
    flags = [flag for parameter in context.command.params for flag in parameter.opts if flag.startswith("--")]
    return unknown_option(name.removeprefix("--"), [flag.removeprefix("--") for flag in flags])
