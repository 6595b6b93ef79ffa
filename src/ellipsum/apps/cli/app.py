"""`ellipsum sum | mean | describe | plan | demo`: the library's words, typed in a shell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from ...errors import visible
from ...util.interrupts import check_interrupted
from ...version import VERSION

app = typer.Typer(
    name="ellipsum",
    help="Publish sums and means of vectors under differential privacy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Files = Annotated[list[str], typer.Argument(metavar="FILE...", help="CSV, Parquet or Feather files, or globs.")]
Columns = Annotated[
    str | None, typer.Option(help="Columns to use, in this order: a,b. Default: all, or the bounded ones.")
]
Bounds = Annotated[
    list[str] | None,
    typer.Option(help="name=lo:hi, repeated; lo:hi for every column; or a JSON or CSV file of them."),
]
Radius = Annotated[float | None, typer.Option(help="Every row lies within this distance of --center.")]
Center = Annotated[str | None, typer.Option(help="Center of the ball: a number, or one per column: 1,2,3. Default 0.")]
NormalRows = Annotated[
    list[str] | None,
    typer.Option("--normal", help="name=mean:std of roughly normal columns, repeated; or a JSON or CSV file of them."),
]
CenterError = Annotated[
    float | None, typer.Option(help="With --normal: how far the means may be off, in stds. Default 0.1.")
]
Clip = Annotated[str, typer.Option(help="With --normal: optimal, quantile, or a radius.")]
ClipProbability = Annotated[
    float | None, typer.Option(help="With --clip quantile: share of rows clipped. Default 1/n.")
]
Magnitude = Annotated[
    list[str] | None,
    typer.Option(
        metavar="M | NAME=M",
        help="Only |entry| <= M is known, of every column or repeated for each: the rest is learned privately.",
    ),
]
RowsFile = Annotated[str | None, typer.Option("--rows", help="Rows as learned: a file that ellipsum learn wrote.")]
Method = Annotated[str | None, typer.Option(help="With --magnitude: how to learn. Default auto.")]
Epsilon = Annotated[float | None, typer.Option(help="Privacy budget: epsilon. No default.")]
Delta = Annotated[float | None, typer.Option(help="Privacy budget: delta. No default.")]
Neighbors = Annotated[str, typer.Option(help="replace (n is public) or add-remove (n stays private).")]
Guess = Annotated[int | None, typer.Option("--n", help="Under add-remove: your public guess of the number of rows.")]
Shape = Annotated[str, typer.Option(help="optimal, ball for equal noise in every column, or closed_form (--normal).")]
Weights = Annotated[
    str | None,
    typer.Option(
        help="What errors are measured in: relative, each column in units of its own spread (default where columns "
        "have names); equal, plain units; or a number per column, as in --weights 1,5,2."
    ),
]
Noise = Annotated[
    str,
    typer.Option(
        help="Law of the noise: auto takes the one of least forecast error; gaussian; norm is spherical, or pure in "
        "blocks of columns. --delta 0 asks for a pure law."
    ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        help="What a missing entry does: column, each column is over the rows that have it, counted noisily (default); "
        "row, its row is left out (default with --radius); center, it counts as the center; or what is filled in, "
        "as in --missing 0 or --missing 1,2,3."
    ),
]
NoCheck = Annotated[
    bool,
    typer.Option(
        "--no-check",
        help="Do not count what is clipped: a little less noise, but intervals and warnings cannot speak of it. "
        "Example: ellipsum mean ... --no-check.",
    ),
]
Covariance = Annotated[
    bool,
    typer.Option(
        "--covariance",
        help="Correlations of the columns too, for up to 1.42 times the noise; rows must be complete, as with "
        "--missing row. Example: ellipsum describe ... --missing row --covariance.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Write the release to this file: JSON, or CSV for groups if it ends so."),
]
Json = Annotated[bool, typer.Option("--json", help="JSON alone on standard output.")]
Plot = Annotated[
    Path | None,
    typer.Option(help="Draw it to this file, .svg, .png or .pdf. Example: ellipsum mean ... --plot mean.svg."),
]
Report = Annotated[
    Path | None,
    typer.Option(help="Write a report to this HTML file, to publish or print: values, guarantee in words, checklist."),
]
SavePlan = Annotated[Path | None, typer.Option(help="Write the plan (public numbers only) to this file.")]
UsePlan = Annotated[str | None, typer.Option("--plan", help="Run a saved plan; it holds rows, budget and columns.")]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Go on without a question where the noise would drown the answer.")
]
PrivacyId = Annotated[
    str | None, typer.Option(help="Column that names the person a row belongs to: their rows become one.")
]
PerPerson = Annotated[
    str | None,
    typer.Option(
        help="With --privacy-id: mean of a person's rows (default), their sum, or rows: at most --max-rows of them "
        "stay as they are."
    ),
]
MaxRows = Annotated[int | None, typer.Option(help="With --privacy-id: rows of a person that count at most.")]
By = Annotated[str | None, typer.Option(help="Column that names a row's group, or several: a,b. One result for each.")]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        help="With --by: the groups, if they are public: a,b,c; name=a,b,c for each of several columns, repeated; or a "
        "CSV file with the columns of --by. Default: those whose noisy count is large enough."
    ),
]
MaxGroups = Annotated[
    int, typer.Option(help="With --by and --privacy-id: groups of a person that count at most, one row in each.")
]
Sql = Annotated[
    str | None,
    typer.Option(
        "--sql",
        help="Query (one SELECT) to run; FILE is then a database: duckdb:///file.db, sqlite:///file.db (with four "
        "slashes, duckdb:////folder/file.db, where the path is absolute) or postgresql://user@host/name, its password "
        "in PGPASSWORD, ~/.pgpass or a service file.",
    ),
]
Header = Annotated[
    bool, typer.Option("--header", help="The first line of a CSV file names its columns although it holds numbers.")
]
Threads = Annotated[int | None, typer.Option(help="Threads to use. Default: all cores.")]
Engine = Annotated[str | None, typer.Option(help="spark: let Spark read and add up (Parquet, Delta). Default: here.")]
LedgerAt = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        envvar="ELLIPSUM_LEDGER",
        help="Charge the release to this ledger (ellipsum ledger init), before any value is read.",
    ),
]
LedgerDataset = Annotated[
    str | None,
    typer.Option("--dataset", help="With --ledger: the name of the data set, maybe with a version: name@2026."),
]
Key = Annotated[
    str | None,
    typer.Option(
        help="With --ledger: a name for this request; the same again returns the stored release, free, and says so."
    ),
]
Analyst = Annotated[str | None, typer.Option(help="With --ledger: who asks, where analysts have caps.")]


# Groups of options by the name that a command knows them by: (kind, default).
Options = dict[str, tuple[Any, Any]]
FILES: Options = {"files": (Files, Parameter.empty)}
ROWS: Options = {
    "columns": (Columns, None),
    "bounds": (Bounds, None),
    "radius": (Radius, None),
    "center": (Center, None),
    "normal": (NormalRows, None),
    "center_error": (CenterError, None),
    "magnitude": (Magnitude, None),
    "rows": (RowsFile, None),
    "method": (Method, None),
}
BUDGET: Options = {"epsilon": (Epsilon, None), "delta": (Delta, None), "neighbors": (Neighbors, "replace")}
SHAPE: Options = {
    "shape": (Shape, "optimal"),
    "weights": (Weights, None),
    "noise": (Noise, "auto"),
    "clip": (Clip, "optimal"),
    "clip_probability": (ClipProbability, None),
    "missing": (Missing, None),
    "no_check": (NoCheck, False),
}
_BOUNDED: Options = {"columns": (Columns, None), "bounds": (Bounds, None)}
_COVARIANCE: Options = {"covariance": (Covariance, False)}
_UNCLIPPED: Options = {name: option for name, option in SHAPE.items() if name not in ("clip", "clip_probability")}
RESULT: Options = {
    "output": (Output, None),
    "as_json": (Json, False),
    "plot": (Plot, None),
    "report": (Report, None),
    "save_plan": (SavePlan, None),
    "plan": (UsePlan, None),
    "yes": (Yes, False),
}
PEOPLE: Options = {
    "privacy_id": (PrivacyId, None),
    "per_person": (PerPerson, None),
    "max_rows": (MaxRows, None),
}
GROUPS: Options = {"by": (By, None), "keys": (Keys, None), "max_groups": (MaxGroups, 1)}
READING: Options = {
    "threads": (Threads, None),
    "engine": (Engine, None),
    **PEOPLE,
    "sql": (Sql, None),
    "header": (Header, False),
    "ledger": (LedgerAt, None),
    "dataset": (LedgerDataset, None),
    "key": (Key, None),
    "analyst": (Analyst, None),
}
Command = TypeVar("Command", bound=Callable[..., None])


def takes(*groups: Options) -> Callable[[Command], Command]:
    """Let a command of **given have the options of these groups, in this order."""

    def give(command: Command) -> Command:
        named = [(name, kind, default) for group in groups for name, (kind, default) in group.items()]
        parameters = [Parameter(name, Parameter.KEYWORD_ONLY, default=d, annotation=k) for name, k, d in named]
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return command

    return give


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ellipsum {VERSION}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command("sum")
@takes(FILES, ROWS, BUDGET, {"n": (Guess, None)}, SHAPE, RESULT, GROUPS, READING)
def sum_command(**given: Any) -> None:
    """Publish the private sum of the chosen columns.

    Example:

        ellipsum sum people.csv --bounds age=0:120 --bounds income=0:200000 --epsilon 1 --delta 1e-6

        ellipsum sum people.csv --bounds income=0:200000 --missing 0 --no-check --epsilon 1 --delta 1e-6
    """
    _publish("sum", given)


@app.command("mean")
@takes(FILES, ROWS, BUDGET, {"n": (Guess, None)}, SHAPE, RESULT, GROUPS, READING)
def mean_command(**given: Any) -> None:
    """Publish the private mean of the chosen columns.

    Examples:

        ellipsum mean people.csv --bounds age=0:120 --bounds income=0:200000 --epsilon 1 --delta 1e-6

        ellipsum mean people.csv --columns age --radius 60 --center 60 --epsilon 1 --delta 1e-6 --json

        ellipsum mean people.csv --columns age,income --magnitude 1e7 --epsilon 1 --delta 1e-6

        ellipsum mean people.csv --bounds age=0:120 --bounds income=0:200000 --missing row --epsilon 1 --delta 1e-6

        ellipsum mean people.csv --bounds age=0:120 --by city --epsilon 1 --delta 1e-6 --output groups.csv

        ellipsum mean people.csv --bounds age=0:120 --epsilon 1 --delta 1e-6 --plot mean.svg --report mean.html
    """
    _publish("mean", given)


@app.command("describe")
@takes(FILES, _BOUNDED, BUDGET, {"n": (Guess, None)}, _UNCLIPPED, _COVARIANCE, RESULT, GROUPS, READING)
def describe_command(**given: Any) -> None:
    """Publish count, mean and standard deviation of the chosen columns, in one release.

    Examples:

        ellipsum describe people.csv --bounds age=0:120 --bounds income=0:200000 --epsilon 1 --delta 1e-6

        ellipsum describe people.csv --bounds age=0:120 --noise gaussian --epsilon 1 --delta 1e-6 --json

        ellipsum describe people.csv --bounds age=0:120 --by city --epsilon 1 --delta 1e-6 --output groups.csv
    """
    _publish("describe", given)


_PLAN_SIZE: Options = {
    "n": (
        Annotated[
            str | None,
            typer.Option("--n", help="Number of rows (a guess under add-remove); auto: the fewest that meet --error."),
        ],
        None,
    ),
    "error": (
        Annotated[
            float | None,
            typer.Option(
                help="Root mean square error to meet, in place of --epsilon: the least epsilon is found. "
                "Example: ellipsum plan --n 9000 --bounds age=0:120 --statistic mean --error 0.5 --delta 1e-6."
            ),
        ],
        None,
    ),
    "d": (Annotated[int | None, typer.Option("--d", help="Number of columns, where no names say it.")], None),
}
_PLAN_MORE: Options = {
    "zipf": (
        Annotated[
            float | None, typer.Option(help="Normal rows with stds i^-ZIPF / sum (needs --d), to explore shapes.")
        ],
        None,
    ),
    "groups": (
        Annotated[int | None, typer.Option(help="With --by: how many groups are expected, where --keys lists none.")],
        None,
    ),
    "statistic": (Annotated[str, typer.Option(help="sum, mean or describe.")], "sum"),
    "output": (
        Annotated[Path | None, typer.Option("--output", "-o", "--save-plan", help="Write the plan here.")],
        None,
    ),
    "as_json": (Json, False),
    "plot": (Plot, None),
}


@app.command("plan")
@takes(_PLAN_SIZE, ROWS, BUDGET, SHAPE, _COVARIANCE, PEOPLE, GROUPS, _PLAN_MORE)
def plan_command(**given: Any) -> None:
    """Forecast a release without any data, and save its plan.

    For normal rows every shape and radius rule is shown side by side.

    Examples:

        ellipsum plan --n 10000 --bounds age=0:120 --bounds income=0:200000 --statistic mean --epsilon 1 --delta 1e-6

        ellipsum plan --n 1000 --d 100 --zipf 1 --epsilon 1 --delta 1e-6

        ellipsum plan --n 9000 --bounds age=0:120 --bounds income=0:9e5 --weights equal --epsilon 1 --delta 1e-6

        ellipsum plan --n 9000 --bounds age=0:120 --statistic mean --epsilon 1 --delta 1e-6 --plot plan.svg
    """
    from ...api import plan as make_plan
    from . import show
    from .inputs import (
        budget_of,
        check_targets,
        groups_of,
        rows_count,
        rows_of,
        shape_of,
        split_columns,
        terms_of,
    )

    check_targets(given)
    rows, chosen = rows_of(given, split_columns(given["columns"]))
    terms = {**terms_of(given), "n": rows_count(given["n"]), "d": given["d"], "columns": chosen}
    if given["error"] is not None and given["epsilon"] is None:
        spend: dict[str, Any] = {"delta": given["delta"], "error": given["error"]}
    else:
        spend = {"budget": budget_of(given["epsilon"], given["delta"])}
        spend |= {} if given["error"] is None else {"error": given["error"]}
    terms |= {"statistic": given["statistic"], "covariance": given["covariance"]}
    terms.update({name: given[name] for name in PEOPLE})
    terms.update(groups_of(given), groups=given["groups"])
    made = make_plan(rows, **shape_of(given), **terms, **spend)
    show.write_plan(made, given["output"])
    show.plan(made, given["as_json"])
    if rows.kind == "normal" and not given["as_json"] and given["error"] is None and given["by"] is None:
        show.compare_shapes(rows, {**terms, **spend})
    show.pictures(made, given)


@app.command("reproduce")
def reproduce_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for figures and tables.")] = Path(
        "out/reproduce"
    ),
    quick: Annotated[bool, typer.Option(help="Fewer points, for a first look.")] = False,
) -> None:
    """Regenerate the source report's figures with exact quantiles, and add what they lack.

    Example:

        ellipsum reproduce --quick
    """
    from ..reproduce import reproduce
    from . import show

    with show.stages() as advance:
        written = reproduce(output, advance, quick)
    for path in written:
        typer.echo(visible(str(path)))


@app.command("demo")
def demo_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the picture.")] = Path("out"),
    rows: Annotated[int, typer.Option(help="Rows of generated data.")] = 20_000,
) -> None:
    """Release the mean of generated data with ball and elliptical noise, and compare error with forecast.

    Example:

        ellipsum demo
    """
    from ..demo import run_demo

    run_demo(output, rows)


def source_words(given: dict[str, Any]) -> dict[str, Any]:
    """The options that say where the rows are and whom they belong to, as the library calls them."""
    from .engine import data_of, warn_of_password

    if given["ledger"] is not None:
        warn_of_password(given["ledger"])
    return {
        "data": data_of(given["files"], given["engine"], given["sql"]),
        "header": given["header"] or None,
        "privacy_id": given["privacy_id"],
        "per_person": given["per_person"],
        "max_rows": given["max_rows"],
        **{name: given[name] for name in ("ledger", "dataset", "key", "analyst")},
    }


def _publish(statistic: str, given: dict[str, Any]) -> None:
    from . import show
    from .inputs import check_targets, split_columns

    check_targets(given)
    columns = split_columns(given["columns"])
    run = _run_saved if given["plan"] is not None else _run_fresh
    with show.ProgressConsole(statistic, given["yes"]) as desk:
        how = {"threads": given["threads"], "progress": desk.progress, "approve": desk.approve}
        release = run(statistic, columns, given, how, desk)
    check_interrupted()
    show.write_plan(desk.plan, given["save_plan"])
    show.release(release, given["as_json"], given["output"])
    show.pictures(release, given)


def _run_fresh(statistic: str, columns: Any, given: dict[str, Any], how: dict[str, Any], desk: Any) -> Any:
    from ... import api
    from .inputs import (
        budget_of,
        groups_of,
        rows_of,
        shape_of,
        terms_for_people,
        terms_of,
    )

    budget = budget_of(given["epsilon"], given["delta"])
    rows, chosen = rows_of(given, columns)
    shape = {"shape": given["shape"]} if statistic == "describe" else shape_of(given)
    words = {**terms_of(given), **shape, **groups_of(given), "budget": budget, "n": given["n"], "columns": chosen}
    if given["privacy_id"] is not None:
        desk.announce(rows, terms_for_people(budget, given))
    calls: dict[str, Any] = {"sum": api.sum, "mean": api.mean, "describe": api.describe}
    if statistic == "describe":
        del words["method"]
        words["covariance"] = given["covariance"]
    return calls[statistic](rows=rows, **words, **source_words(given), **how)


_NAMED = {"sum": "a sum", "mean": "a mean", "describe": "a description"}


def _run_saved(statistic: str, columns: Any, given: dict[str, Any], how: dict[str, Any], desk: Any) -> Any:
    from ...display.wording import describe_guarantee
    from ...errors import UsageError
    from .inputs import read_plan

    fixed = [*ROWS, "clip_probability", "weights", "missing", "no_check", "covariance", "epsilon", "delta", "n"]
    fixed += ["by", "keys", *PEOPLE]
    fixed.remove("columns")
    named = [f"--{name.replace('_', '-')}" for name in fixed if given.get(name) not in (None, False)]
    if named:
        raise UsageError(f"--plan holds everything that {', '.join(named)} would say. Leave them out.")
    made = read_plan(given["plan"])
    if made.statistic != statistic:
        raise UsageError(f"this plan is for {_NAMED[made.statistic]}. Run: ellipsum {made.statistic} ... --plan")
    if made.people is not None:
        desk.announce(made.rows, describe_guarantee(replace(made.privacy, unit="person"), made.stated))
    words = {name: value for name, value in source_words(given).items() if name not in PEOPLE}
    return made.release(columns=columns, **words, **how)
