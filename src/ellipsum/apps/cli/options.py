"""The options of the commands, in the groups that help shows; nothing heavy is imported, so that help comes at once.

A command's function takes one object of options; `with_options` lets typer see its fields as options.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import partial
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

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


_places = itertools.count()


def option(
    panel: str,
    metavar: str,
    help: str,
    *,
    default: object = None,
    flags: tuple[str, ...] = (),
    envvar: str | None = None,
) -> Any:
    """A field that is an option, which help explains in one panel; an empty metavar is a flag's."""
    described = {"metavar": metavar, "help": help, "rich_help_panel": panel, "show_default": False, "envvar": envvar}
    return field(default=default, metadata={"flags": flags, "option": described, "place": next(_places)})


def argument(metavar: str, help: str, *, required: bool = True, envvar: str | None = None) -> Any:
    """A field that is the positional argument."""
    described = {"metavar": metavar, "help": help, "show_default": False, "envvar": envvar}
    return field(default=MISSING if required else None, metadata={"argument": described})


statistic_option, privacy_option, bounds_option, input_option = (partial(option, panel) for panel in PANELS[:4])
people_option, output_option, ledger_option, advanced_option = (partial(option, panel) for panel in PANELS[4:])


@dataclass(frozen=True, kw_only=True)
class BudgetOptions:
    """The privacy budget."""

    epsilon: float | None = privacy_option(
        "NUMBER", "Privacy-loss parameter epsilon. Smaller is more private. No default."
    )
    delta: float | None = privacy_option(
        "NUMBER", "Privacy-loss parameter delta, such as 1e-6; 0 for pure differential privacy. No default."
    )


@dataclass(frozen=True, kw_only=True)
class PrivacyOptions(BudgetOptions):
    """Budget and neighbors."""

    neighbors: str = privacy_option(
        "replace|add-remove",
        "Neighboring data sets: replace one row (the number of rows is public; default), or add or remove one row "
        "(it is private).",
        default="replace",
    )


@dataclass(frozen=True, kw_only=True)
class GuessOptions:
    """The caller's guess of the number of rows."""

    n: int | None = privacy_option("N", "With --neighbors add-remove: your public guess of the number of rows.")


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """Which columns are used."""

    columns: str | None = input_option(
        "NAMES", "Columns to use, in this order: a,b. Default: those with bounds, or all."
    )


@dataclass(frozen=True, kw_only=True)
class BoxOptions(ColumnOptions):
    """Bounds of each column."""

    bounds: list[str] | None = bounds_option(
        "NAME=LO:HI",
        "Lower and upper bound of a column, repeated for each; LO:HI for every column; or a file: JSON or CSV "
        "with bounds, or what ellipsum learn wrote.",
    )


@dataclass(frozen=True, kw_only=True)
class BallOptions(BoxOptions):
    """Bounds of each column, or of the distance from a center, or an approximate normal distribution."""

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
    clip_probability: float | None = advanced_option(
        "P", "With --clip quantile: share of rows that is clipped. Default: 1/n."
    )


@dataclass(frozen=True, kw_only=True)
class MagnitudeOptions(ColumnOptions):
    """Bounds that are estimated."""

    magnitude: list[str] | None = bounds_option(
        "M|NAME=M", "Only |value| <= M is known, of every column or of each: bounds are estimated privately."
    )


@dataclass(frozen=True, kw_only=True)
class LearningMethodOptions(MagnitudeOptions):
    """How bounds are estimated."""

    method: str | None = bounds_option("NAME", "With --magnitude: how to estimate. Default: auto.")


@dataclass(frozen=True, kw_only=True)
class VectorOptions(BallOptions, LearningMethodOptions):
    """Everything that can be known about the values of a sum or a mean."""

    shape: str = advanced_option(
        "optimal|ball|closed_form",
        "Shape of the noise: optimal (default), ball (the same in every column), closed_form (--normal).",
        default="optimal",
    )
    clip: str = advanced_option("RULE", "With --normal: optimal (default), quantile, or a radius.", default="optimal")


@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """Where the data is and how it is read."""

    files: list[str] = argument(
        "FILE", "CSV, Parquet or Feather files, a folder, a pattern or, with --sql, a database."
    )
    header: bool = input_option(
        "", "The first line of a CSV file names the columns although it holds numbers.", default=False
    )
    sql: str | None = input_option(
        "QUERY",
        "A SELECT to run; FILE is then a database: duckdb:///file.db, sqlite:///file.db (four slashes before an "
        "absolute path) or postgresql://user@host/name, its password in PGPASSWORD or ~/.pgpass.",
    )
    engine: str | None = advanced_option("spark", "Let Spark read and add up (Parquet, Delta).")


@dataclass(frozen=True, kw_only=True)
class PeopleOptions:
    """People who have several rows."""

    privacy_id: str | None = people_option(
        "COLUMN", "Column that identifies people, who may have several rows: each person is protected as a whole."
    )
    per_person: str | None = people_option(
        "mean|sum|rows",
        "With --privacy-id: a person's rows become their mean (default) or their sum, or stay single rows, up to "
        "--max-rows.",
    )
    max_rows: int | None = people_option(
        "N", "With --privacy-id: the largest number of rows of a person that are used."
    )


@dataclass(frozen=True, kw_only=True)
class GroupOptions:
    """One result for each group."""

    by: str | None = people_option("COLUMNS", "Grouping columns: a,b. One result for each group.")
    keys: list[str] | None = people_option(
        "LIST",
        "With --by: the groups, if they are public: a,b,c; NAME=a,b,c for each of several columns; or a CSV file. "
        "Default: groups are selected privately.",
    )
    max_per_person: int = people_option(
        "N", "With --by and --privacy-id: the largest number of groups of a person. Default: 1.", default=1
    )


@dataclass(frozen=True, kw_only=True)
class NoiseOptions:
    """Which mechanism adds the noise."""

    noise: str = advanced_option(
        "auto|gaussian|knorm",
        "Mechanism: auto (default) takes the one with the smallest expected error; gaussian; knorm (K-norm, "
        "Laplace for one column).",
        default="auto",
    )


@dataclass(frozen=True, kw_only=True)
class MissingOptions:
    """Treatment of missing values."""

    missing: str | None = input_option(
        "RULE",
        "Missing values: skip (default), drop_row, none (the columns are complete), or a number to fill in, or one "
        "per column: 1,2,3.",
    )


@dataclass(frozen=True, kw_only=True)
class ErrorOptions(NoiseOptions, MissingOptions):
    """Which error is minimized, and which values are counted."""

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


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """Output files."""

    as_json: bool = output_option("", "Print only JSON on standard output.", flags=("--json",), default=False)
    plot: Path | None = output_option("FILE", "Draw it to a .svg, .png or .pdf file.")


@dataclass(frozen=True, kw_only=True)
class ReportOptions(FileOptions):
    """A report, and how much is printed."""

    report: Path | None = output_option("FILE", "Write a report as one HTML file.")
    verbose: bool = output_option(
        "", "Show the whole plan before the release, not one line.", flags=("--verbose", "-v"), default=False
    )
    yes: bool = output_option(
        "", "Do not ask for confirmation when the expected error is large.", flags=("--yes", "-y"), default=False
    )


@dataclass(frozen=True, kw_only=True)
class SavingOptions(ReportOptions):
    """Where a release and its plan are written, and a plan that is run again."""

    output: Path | None = output_option(
        "FILE", "Write the release to a JSON file; groups to CSV if its name ends so.", flags=("--output", "-o")
    )
    save_plan: Path | None = output_option("FILE", "Write the plan, which holds public numbers only.")
    plan: str | None = advanced_option("FILE", "Run a saved plan; it holds bounds, budget and columns.")


@dataclass(frozen=True, kw_only=True)
class LedgerOptions:
    """The account that a release is charged to."""

    ledger: str | None = ledger_option(
        "LEDGER", "Charge the release to this ledger (see ellipsum ledger init).", envvar="ELLIPSUM_LEDGER"
    )
    dataset: str | None = ledger_option("NAME", "With --ledger: the data set, perhaps with a version: name@2026.")
    request_id: str | None = ledger_option(
        "ID",
        "With --ledger: a name for this request; a retry with the same name returns the stored release without a "
        "new charge.",
    )
    analyst: str | None = ledger_option("NAME", "With --ledger: who asks, where analysts have limits.")


@dataclass(frozen=True, kw_only=True)
class RunOptions(InputOptions, PeopleOptions, PrivacyOptions, LedgerOptions, ReportOptions):
    """Options of every command that reads data."""

    threads: int | None = advanced_option("N", "Threads to use. Default: all cores.")


@dataclass(frozen=True, kw_only=True)
class ReleaseOptions(RunOptions, GuessOptions, GroupOptions, NoiseOptions, SavingOptions):
    """Options of every statistic."""


@dataclass(frozen=True, kw_only=True)
class SumOptions(VectorOptions, ErrorOptions, ReleaseOptions):
    """Options of a sum or a mean."""


@dataclass(frozen=True, kw_only=True)
class DescribeOptions(BoxOptions, ErrorOptions, ReleaseOptions):
    """Options of a description."""

    shape: str = advanced_option(
        "optimal|ball", "Shape of the noise: optimal (default), or ball (the same in every column).", default="optimal"
    )
    covariance: bool = statistic_option(
        "",
        "Also correlations of the columns, for up to 1.42 times the noise; needs --missing drop_row or none.",
        default=False,
    )
    quantiles: str = statistic_option(
        "LIST|none",
        "Probabilities of the quantiles, which get half of the budget; none leaves them out. Default: 0.25,0.5,0.75.",
        default="0.25,0.5,0.75",
    )


@dataclass(frozen=True, kw_only=True)
class QuantileOptions(BoxOptions, MagnitudeOptions, MissingOptions, ReleaseOptions):
    """Options of quantiles."""

    q: str = statistic_option(
        "LIST", "Probabilities of the quantiles. Default: 0.25,0.5,0.75.", default="0.25,0.5,0.75"
    )
    bins: str | None = statistic_option(
        "BINS", "integer for columns of whole numbers, a number of bins, or edges: 0,10,20. Default: chosen."
    )
    method: str = statistic_option(
        "cdf|exponential",
        "cdf (default): all quantiles with intervals; exponential: more accurate for one quantile, without intervals.",
        default="cdf",
    )


@dataclass(frozen=True, kw_only=True)
class HistogramOptions(ReleaseOptions):
    """Options of a histogram."""

    bins: list[str] | None = statistic_option(
        "NAME=EDGES", "Edges of the bins of a column, repeated: age=0,18,65,120. The outermost may be -inf and inf."
    )
    categories: list[str] | None = statistic_option("NAME=LIST", "Categories of a column, repeated: city=Bern,Ulm.")


Given = TypeVar("Given")


def with_options(command: Callable[[Given], None]) -> Callable[..., None]:
    """Let typer see the fields of a command's options as the command's own parameters, by panel."""
    (kind,) = (hint for name, hint in get_type_hints(command).items() if name != "return")
    hints = get_type_hints(kind)
    parameters = [
        Parameter(
            each.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if each.default is MISSING else each.default,
            annotation=Annotated[hints[each.name], _describe_field(each)],
        )
        for each in sorted(fields(kind), key=_panel_and_place)
    ]

    def run(**values: object) -> None:
        command(kind(**values))

    run.__doc__, run.__name__ = command.__doc__, command.__name__
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


def _describe_field(each: Field[Any]) -> Any:
    """The description of a field for typer."""
    if "argument" in each.metadata:
        return typer.Argument(**each.metadata["argument"])
    flags = each.metadata["flags"] or (f"--{each.name.replace('_', '-')}",)
    return typer.Option(*flags, **each.metadata["option"])


def _panel_and_place(each: Field[Any]) -> tuple[int, int]:
    """The place of an option in help: by its panel, then as it is defined here; arguments come first."""
    if "argument" in each.metadata:
        return -1, 0
    return PANELS.index(each.metadata["option"]["rich_help_panel"]), each.metadata["place"]


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
