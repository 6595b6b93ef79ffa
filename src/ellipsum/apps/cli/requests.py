"""The request, the data and the account that the options of a command describe."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ... import Budget, Groups, Ledger, People, UsageError, csv, sql
from ...errors import choice
from ...ledger import DatasetAccount
from ...request.quantiles import Quantiles
from ...request.request import ONES, Request
from ...rows import Rows
from ...sources.paths import check_apart
from ...sources.protocol import attempt
from ...sources.sql import Query, has_password
from ...util.atomic_files import check_writable
from ...util.interrupts import handlers_kept
from . import parsing
from .options import OPTIONS, RUN_OPTIONS, DataOptions, flag, typed_options
from .output import print_warning

_VISIBLE_PASSWORD = (
    "Everyone on this machine can see the password in the address while the command runs. "
    "Set PGPASSWORD, or keep it in ~/.pgpass or a service file (postgresql://host/name?service=mine)."
)
_OWN_SETUP = ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS")
_EXAMPLES = {"bounds": "--bounds age=0:120", "magnitude": "--magnitude 1e6"}
_OWNERS = {"center": "--radius", "center_error": "--normal", "clip_probability": "--normal", "method": "--magnitude"}
"""Options that need another option, which describes the values."""


# The request --------------------------------------------------------------------------------------------


def make_request(statistic: str, options: DataOptions, budget: Budget | None) -> Request:
    """The request that the options of a statistic make."""
    bounds, names = parse_values(statistic, options)
    return Request(
        statistic,
        bounds,
        budget,
        neighbors=options.neighbors.replace("-", "_"),
        n=parse_n(options.n),
        columns=None if names == bounds.columns else names,
        people=parse_people(options),
        groups=parse_groups(options),
        missing=parsing.parse_rule(options.missing),
        noise=options.noise,
        error_weights=_parse_weights(options.error_weights),
        count_clipped=not options.no_count_clipped,
        covariance=options.covariance,
        quantiles=_parse_quantiles(statistic, options),
    )


def _parse_quantiles(statistic: str, options: DataOptions) -> Quantiles | None:
    """The quantiles of their own statistic, or of a description."""
    if statistic == "quantiles":
        bins = ",".join(options.bins or ()) or None
        return parsing.parse_quantiles(options.q, bins, options.method or "cdf")
    if statistic != "describe" or options.quantiles == "none":
        return None
    return parsing.parse_quantiles(options.quantiles, option="--quantiles")


def parse_values(command: str, options: DataOptions) -> tuple[Rows, parsing.Names | None]:
    """The bounds of the values, and their columns; a count has no columns."""
    if command == "histogram":
        return parsing.parse_bins(options.bins or (), options.categories or ()), None
    if command == "count":
        return ONES, None
    ways = [name for name in ("bounds", "radius", "normal", "magnitude") if name in OPTIONS[command]]
    typed = [flag(name) for name in ways if getattr(options, name) not in (None, [])]
    if len(typed) > 1:
        raise UsageError(f"{' and '.join(typed)} describe the same values. Use one of them.")
    if not typed:
        choices = f"{'one of ' if len(ways) > 1 else ''}{', '.join(map(flag, ways))}"
        raise UsageError(f"Nothing is known about the values. Use {choices}, for example {_EXAMPLES[ways[0]]}.")
    for name, owner in _OWNERS.items():
        is_method_of_quantiles = name == "method" and command == "quantiles"
        if getattr(options, name) is not None and typed != [owner] and not is_method_of_quantiles:
            raise UsageError(f"{flag(name)} needs {owner}. Leave {flag(name)} out, or use {owner}.")
    bounds, names = _parse_way(command, options, typed[0])
    return parsing.shape_bounds(bounds, options.shape, options.clip), names


def _parse_way(command: str, options: DataOptions, way: str) -> tuple[Rows, parsing.Names | None]:
    """Parse the bounds from the option that describes the values."""
    names = parsing.parse_names(options.columns, "--columns")
    if way == "--magnitude":
        method = "auto" if command == "quantiles" else options.method or "auto"
        return parsing.parse_magnitudes(options.magnitude or (), names, method)
    if options.radius is not None:
        return parsing.parse_ball(options.radius, options.center), names
    if way == "--normal":
        own = {"center_error": options.center_error, "clip_probability": options.clip_probability}
        options_set = {name: value for name, value in own.items() if value is not None}
        return parsing.parse_normal(options.normal or (), names, options_set)
    return parsing.parse_bounds(options.bounds or (), names)


def parse_n(text: str | None, words: str = "") -> int | None:
    """Parse a number of rows; words: other values of the option, for the error."""
    try:
        return None if text is None else int(text)
    except ValueError:
        raise UsageError(f"--n must be a whole number{words}, got {text!r}.") from None


def parse_budget(options: DataOptions) -> Budget:
    """Parse the budget, which has no defaults."""
    for name, value in (("--epsilon", options.epsilon), ("--delta", options.delta)):
        if value is None:
            raise UsageError(f"{name} is missing. Set the privacy budget, for example --epsilon 1 --delta 1e-6.")
    return Budget(epsilon=options.epsilon, delta=options.delta)


def _parse_weights(text: str | None) -> str | list[float] | None:
    """Parse the weights of the error."""
    weights = parsing.parse_rule(text)
    return [weights] if isinstance(weights, float) else weights


def parse_people(options: DataOptions) -> People | None:
    """Parse the options for people with several rows."""
    if options.privacy_id is not None:
        return People(options.privacy_id, options.per_person or "mean", options.max_rows)
    if options.per_person is not None or options.max_rows is not None:
        raise UsageError("--per-person and --max-rows need --privacy-id, the column that identifies people.")
    return None


def parse_groups(options: DataOptions) -> Groups | None:
    """Parse the options for groups."""
    if options.by is not None:
        by = parsing.parse_names(options.by, "--by") or ()
        keys = parsing.parse_keys(options.keys, by) if options.keys else None
        return Groups(by, keys, options.max_per_person, options.expected)
    if options.keys or options.max_per_person != 1 or options.expected is not None:
        raise UsageError("--keys, --max-per-person and --expected need --by, the grouping columns.")
    return None


def check_plan_alone(options: DataOptions) -> None:
    """Refuse options of the request beside a saved plan, which holds the request."""
    typed = [flag(name) for name in typed_options(options) if name not in RUN_OPTIONS]
    if typed:
        raise UsageError(f"--plan already holds {', '.join(typed)}. Leave {'it' if len(typed) == 1 else 'them'} out.")


# Data, account and files --------------------------------------------------------------------------------


def open_data(options: DataOptions) -> object:
    """The data that the options name."""
    source = _source(options)
    if options.engine is not None:
        return _read_with_spark(options.files, options.engine)
    if not options.header:
        return source
    if isinstance(source, Query):
        raise UsageError("--header is for CSV files. Leave it out with --sql.")
    return csv(source, header=True)


def _source(options: DataOptions) -> str | list[str] | Query:
    """The meaning of the positional arguments: files or, with --sql, the address of a database."""
    files = options.files
    if options.sql is None:
        return files[0] if len(files) == 1 else list(files)
    if options.engine is not None:
        raise UsageError("--engine cannot be used with --sql. Leave one of them out.")
    if len(files) != 1:
        raise UsageError("--sql needs one database, such as duckdb:///file.db, instead of files.")
    return sql(options.sql, files[0])


def parse_account(options: DataOptions) -> DatasetAccount | None:
    """The account that a release is charged to."""
    if options.ledger is None:
        if options.dataset is not None or options.analyst is not None or options.request_id is not None:
            raise UsageError("--dataset, --analyst and --request-id need --ledger, where budgets are kept.")
        return None
    if options.dataset is None:
        raise UsageError("--dataset is missing. Pass the name under which the ledger keeps this data's budget.")
    return Ledger(options.ledger).dataset(options.dataset, analyst=options.analyst)


def warn_of_password(address: str) -> None:
    """Warn that other users of this machine can see a password in a command's arguments."""
    if has_password(address):
        print_warning(_VISIBLE_PASSWORD)


def check_files(options: DataOptions) -> None:
    """Refuse outputs that cannot be written, that are inputs, or that are the same; nothing is read yet."""
    check_plot(options.plot)
    inputs = _list_inputs(options)
    first: dict[str, str] = {}
    for name in ("output", "save_plan", "plot", "report"):
        path = getattr(options, name)
        if path is None:
            continue
        other = first.setdefault(os.path.realpath(path), flag(name))
        if other != flag(name):
            raise UsageError(f"{other} and {flag(name)} name the same file, and one would be lost. Name two.")
        check_writable(path)
        check_apart(path, inputs)
    for address in (*options.files, options.ledger or ""):
        warn_of_password(address)


def check_plot(path: Path | None) -> None:
    """Refuse a picture that cannot be drawn or written."""
    from ...display.plots.drawing import check_available, check_format

    if path is not None:
        check_format(path)
        check_available()
        check_writable(path)


def _list_inputs(options: DataOptions) -> list[object]:
    """Every file that the options name."""
    source = _source(options) if options.files else []
    files: list[object] = list(source) if isinstance(source, list) else [source]
    for texts in (options.bounds, options.normal, options.keys):
        files += [text for text in texts or () if parsing.is_file(text)]
    return files if options.plan is None else [*files, options.plan]


# Spark --------------------------------------------------------------------------------------------------


def _read_with_spark(files: Sequence[str], engine: str) -> Any:
    """A Spark frame of the files."""
    choice("--engine", engine, ("spark",))
    for file in files:
        if file.lower().endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz", ".feather", ".arrow", ".ipc")):
            raise UsageError(f"--engine spark reads Parquet and Delta, not {file}. Leave --engine out, or convert it.")
    session = _spark_session()
    if not any((Path(file) / "_delta_log").is_dir() for file in files):
        return attempt("Spark could not read the files as Parquet.", lambda: session.read.parquet(*files))
    if len(files) > 1:
        raise UsageError("--engine spark reads one Delta table at a time.")
    # Reading its Parquet files directly would include deleted rows.
    message = f"{files[0]} is a Delta table, and this Spark cannot read it. Add Delta's package to its session."
    return attempt(message, lambda: session.read.format("delta").load(files[0]))


def _spark_session() -> Any:
    """The Spark session that the environment describes, or a local one."""
    from ...sources.spark.runtime import ensure_java

    if find_spec("pyspark") is None:
        raise UsageError("--engine spark needs pyspark. Install it: pip install 'ellipsum[spark]'")
    ensure_java()
    if not any(os.environ.get(name) for name in _OWN_SETUP):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return attempt("Spark could not be started. Start pyspark by itself to see why.", _start_spark)


def _start_spark() -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("ellipsum").config("spark.ui.showConsoleProgress", "false")
    with handlers_kept():  # Spark's own handlers of signals are not needed to cancel jobs.
        session = builder.getOrCreate()
    if hasattr(session, "_jsc"):
        session.sparkContext.setLogLevel("OFF")  # Spark's error texts quote cells
    return session
