"""From the options of a command to its request, its data, and the account that is charged."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ... import Budget, DataError, Groups, Ledger, People, UsageError, csv, sql
from ...errors import choice
from ...ledger import DatasetAccount
from ...request.quantiles import Quantiles
from ...request.request import ONES, Request
from ...rows import Rows
from ...session import Progress, Reading, read_options
from ...sources.paths import check_apart
from ...sources.protocol import attempt
from ...sources.sql import Query, has_password
from ...util.atomic_files import check_writable
from ...util.interrupts import handlers_kept
from . import options as kinds
from . import parsing
from .output import print_warning

_VISIBLE_PASSWORD = (
    "Everyone on this machine can see the password in the address while the command runs. "
    "Set PGPASSWORD, or keep it in ~/.pgpass or a service file (postgresql://host/name?service=mine)."
)
_OWN_SETUP = ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS")
_RUN_FIELDS = {
    field.name
    for kind in (kinds.InputOptions, kinds.LedgerOptions, kinds.SavingOptions, kinds.ColumnOptions)
    for field in fields(kind)
} | {"threads"}
"""Options that say how a request is run, not what it is."""


# The request --------------------------------------------------------------------------------------------


def make_request(statistic: str, options: kinds.ReleaseOptions, budget: Budget | None) -> Request:
    """The request that the options of a statistic make."""
    bounds, names = known_bounds(options)
    return Request(
        statistic,
        bounds,
        budget,
        neighbors=parse_neighbors(options),
        n=options.n,
        columns=None if names == bounds.columns else names,
        people=parse_people(options),
        groups=parse_groups(options),
        missing=parsing.parse_rule(options.missing) if isinstance(options, kinds.MissingOptions) else None,
        noise=options.noise,
        error_weights=parse_weights(options) if isinstance(options, kinds.ErrorOptions) else None,
        count_clipped=not (isinstance(options, kinds.ErrorOptions) and options.no_count_clipped),
        covariance=isinstance(options, kinds.DescribeOptions) and options.covariance,
        quantiles=_quantiles(options),
    )


def _quantiles(options: kinds.ReleaseOptions) -> Quantiles | None:
    """The quantiles of their own statistic, or of a description."""
    if isinstance(options, kinds.QuantileOptions):
        return parsing.parse_quantiles(options.q, options.bins, options.method)
    return parsing.parse_described_quantiles(options.quantiles) if isinstance(options, kinds.DescribeOptions) else None


def known_bounds(options: object) -> tuple[Rows, parsing.Names | None]:
    """What is known about the values, and the columns that it is for; a count has neither."""
    if isinstance(options, kinds.HistogramOptions):
        return parsing.parse_bins(options.bins or (), options.categories or ()), None
    if not isinstance(options, kinds.ColumnOptions):
        return ONES, None
    ways = {
        f"--{name}": getattr(options, name)
        for name in ("bounds", "radius", "normal", "magnitude")
        if hasattr(options, name)
    }
    typed = [name for name, value in ways.items() if value not in (None, [])]
    if len(typed) != 1:
        _refuse_ways(list(ways), typed)
    _check_owners(options, typed[0])
    names = parsing.parse_names(options.columns, "--columns")
    bounds, names = _bounds(options, typed[0], names)
    if isinstance(options, (kinds.VectorOptions, kinds.DescribeOptions)):
        clip = options.clip if isinstance(options, kinds.VectorOptions) else "optimal"
        bounds = parsing.shape_bounds(bounds, options.shape, clip)
    return bounds, names


def _bounds(options: kinds.ColumnOptions, way: str, names: parsing.Names | None) -> tuple[Rows, parsing.Names | None]:
    """Bounds as they were typed, in one of the ways to describe values."""
    if way == "--magnitude" and isinstance(options, kinds.MagnitudeOptions):
        method = getattr(options, "method", None) if not isinstance(options, kinds.QuantileOptions) else None
        return parsing.parse_magnitudes(options.magnitude or (), names, method or "auto")
    if isinstance(options, kinds.BallOptions) and options.radius is not None:
        return parsing.parse_ball(options.radius, options.center), names
    if isinstance(options, kinds.BallOptions) and options.normal:
        own = {"center_error": options.center_error, "clip_probability": options.clip_probability}
        return parsing.parse_normal(
            options.normal, names, {name: value for name, value in own.items() if value is not None}
        )
    assert isinstance(options, kinds.BoxOptions)
    return parsing.parse_bounds(options.bounds or (), names)


def _refuse_ways(ways: list[str], typed: list[str]) -> None:
    """Values are described in exactly one way."""
    if typed:
        raise UsageError(f"{' and '.join(typed)} describe the same values. Use one of them.")
    example = "--bounds age=0:120" if "--bounds" in ways else "--magnitude 1e6"
    choices = ways[0] if len(ways) == 1 else f"one of {', '.join(ways)}"
    raise UsageError(f"Nothing is known about the values. Use {choices}, for example {example}.")


def _check_owners(options: object, way: str) -> None:
    """Options of one way to describe values need that way."""
    owners = {"center": "--radius", "center_error": "--normal", "clip_probability": "--normal"}
    if isinstance(options, kinds.MagnitudeOptions) and not isinstance(options, kinds.QuantileOptions):
        owners["method"] = "--magnitude"
    for name, owner in owners.items():
        if getattr(options, name, None) is not None and way != owner:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} needs {owner}. Leave {option} out, or use {owner}.")


def parse_budget(options: kinds.BudgetOptions) -> Budget:
    """Epsilon and delta, which have no defaults."""
    for name, value in (("--epsilon", options.epsilon), ("--delta", options.delta)):
        if value is None:
            raise UsageError(f"{name} is missing. Set the privacy budget, for example --epsilon 1 --delta 1e-6.")
    return Budget(epsilon=options.epsilon, delta=options.delta)


def parse_neighbors(options: kinds.PrivacyOptions) -> str:
    """The neighboring relation as the library calls it."""
    return options.neighbors.replace("-", "_")


def parse_weights(options: kinds.ErrorOptions) -> str | list[float] | None:
    """Which error is minimized."""
    weights = parsing.parse_rule(options.error_weights)
    return [weights] if isinstance(weights, float) else weights


def parse_people(options: kinds.PeopleOptions) -> People | None:
    """People who have several rows."""
    if options.privacy_id is not None:
        return People(options.privacy_id, options.per_person or "mean", options.max_rows)
    if options.per_person is not None or options.max_rows is not None:
        raise UsageError("--per-person and --max-rows need --privacy-id, the column that identifies people.")
    return None


def parse_groups(options: kinds.GroupOptions, expected: int | None = None) -> Groups | None:
    """The groups; expected: a guess of their number, for a forecast."""
    if options.by is not None:
        by = parsing.parse_names(options.by, "--by") or ()
        keys = parsing.parse_keys(options.keys, by) if options.keys else None
        return Groups(by, keys, options.max_per_person, expected)
    if options.keys or options.max_per_person != 1 or expected is not None:
        raise UsageError("--keys, --max-per-person and --expected need --by, the grouping columns.")
    return None


def check_plan_alone(options: kinds.ReleaseOptions) -> None:
    """A saved plan holds the request, so no option may say it a second time."""
    typed = [
        f"--{field.name.replace('_', '-')}"
        for field in fields(options)
        if field.name not in _RUN_FIELDS and getattr(options, field.name) not in (field.default, [])
    ]
    if typed:
        raise UsageError(f"--plan already holds {', '.join(typed)}. Leave {'it' if len(typed) == 1 else 'them'} out.")


# Data, account and files --------------------------------------------------------------------------------


def open_data(options: kinds.InputOptions) -> object:
    """The data that the options name."""
    if options.engine is not None:
        if options.sql is not None:
            raise UsageError("--engine cannot be used with --sql. Leave one of them out.")
        return _read_with_spark(options.files, options.engine)
    source = _source(options)
    if not options.header:
        return source
    if isinstance(source, Query):
        raise UsageError("--header is for CSV files. Leave it out with --sql.")
    return csv(source, header=True)


def _source(options: kinds.InputOptions) -> str | list[str] | Query:
    """What the positional arguments mean: files or, with --sql, the address of a database."""
    files = options.files
    if options.sql is None:
        return files[0] if len(files) == 1 else list(files)
    if len(files) != 1:
        raise UsageError("--sql takes one database, such as duckdb:///file.db, instead of files.")
    return sql(options.sql, files[0])


def read_data(options: kinds.RunOptions, progress: Progress) -> Reading:
    """How the data is read, and the account that is charged."""
    return read_options(None, options.threads, progress, parse_account(options), options.request_id)


def parse_account(options: kinds.LedgerOptions) -> DatasetAccount | None:
    """The account that a release is charged to."""
    if options.ledger is None:
        if options.dataset is not None or options.analyst is not None or options.request_id is not None:
            raise UsageError("--dataset, --analyst and --request-id need --ledger, where budgets are kept.")
        return None
    if options.dataset is None:
        raise UsageError("--dataset is missing. Pass the name under which the ledger keeps this data's budget.")
    return Ledger(options.ledger).dataset(options.dataset, analyst=options.analyst)


def warn_of_passwords(options: kinds.RunOptions) -> None:
    """Warn where an address among the options has a password."""
    for address in (*options.files, options.ledger or ""):
        warn_of_password(address)


def warn_of_password(address: str) -> None:
    """Tell that other users of this machine can see a password in a command's arguments."""
    if has_password(address):
        print_warning(_VISIBLE_PASSWORD)


def check_targets(options: kinds.FileOptions) -> None:
    """Refuse outputs that cannot be written, that are inputs, or that are the same; nothing is read yet."""
    from ...display.plots.drawing import check_available, check_format

    first: dict[str, str] = {}
    if options.plot is not None:
        check_format(options.plot)
        check_available()
    for name in ("output", "save_plan", "plot", "report"):
        path, option = getattr(options, name, None), f"--{name.replace('_', '-')}"
        if path is None:
            continue
        other = first.setdefault(os.path.realpath(path), option)
        if other != option:
            raise UsageError(f"{other} and {option} name the same file, and one would be lost. Name two.")
        check_writable(path)
        check_apart(path, _inputs(options))


def _inputs(options: object) -> list[object]:
    """Every file that the options name."""
    files: list[object] = []
    if isinstance(options, kinds.InputOptions):
        source = _source(options)
        files += source if isinstance(source, list) else [source]
    for name in ("bounds", "normal", "keys"):
        files += [text for text in getattr(options, name, None) or () if parsing.is_file(text)]
    if isinstance(options, kinds.SavingOptions) and options.plan is not None:
        files.append(options.plan)
    return files


# Spark --------------------------------------------------------------------------------------------------


def _read_with_spark(files: Sequence[str], engine: str) -> Any:
    """A Spark frame of the files."""
    choice("--engine", engine, ("spark",))
    _check_suffixes(files)
    return _read_files(_spark_session(), files)


def _check_suffixes(files: Sequence[str]) -> None:
    for file in files:
        if file.lower().endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz", ".feather", ".arrow", ".ipc")):
            raise UsageError(f"--engine spark reads Parquet and Delta, not {file}. Leave --engine out, or convert it.")


def _spark_session() -> Any:
    """The Spark session that the environment describes; a local one if it says nothing."""
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
    with handlers_kept():  # jobs are canceled without Spark's own
        session = builder.getOrCreate()
    if hasattr(session, "_jsc"):
        session.sparkContext.setLogLevel("OFF")  # Spark's error texts quote cells
    return session


def _read_files(session: Any, files: Sequence[str]) -> Any:
    delta = [(Path(file) / "_delta_log").is_dir() for file in files]
    if not any(delta):
        return attempt("Spark could not read the files as Parquet.", lambda: session.read.parquet(*files))
    if len(files) > 1:
        raise UsageError("--engine spark reads one Delta table at a time.")
    try:
        return attempt("", lambda: session.read.format("delta").load(files[0]))
    except DataError:
        pass
    # Its files alone would bring deleted rows back, so there is no falling back to Parquet.
    raise DataError(f"{files[0]} is a Delta table, and this Spark cannot read it. Add Delta's package to its session.")
