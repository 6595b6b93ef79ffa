"""`--engine spark`: the same command on data that Spark reads."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...errors import DataError, UsageError, choice
from ...sources.sealing import attempt
from ...util.interrupts import handlers_kept

_SEEN = (
    "everyone on this machine can see the password in the address while the command runs. "
    "Set PGPASSWORD, or keep it in ~/.pgpass or a service file (postgresql://host/name?service=mine)."
)
_OWN_SETUP = ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS")


def data_of(files: Sequence[str], engine: str | None, query: str | None = None) -> Any:
    """The data that the options name: files or a query, or with --engine a frame of that engine."""
    if engine is None:
        return source_of(files, query)
    if query is not None:
        raise UsageError("--engine goes without --sql. Leave it out, or write the query's result to Parquet first.")
    choice("--engine", engine, ("spark",))
    _check_suffixes(files)
    return _read(_session(), files)


def source_of(files: Sequence[str], query: str | None) -> Any:
    """What the positional arguments mean: files, or with --sql the address of a database."""
    if query is None:
        return files[0] if len(files) == 1 else list(files)
    from ...sources.sql import sql

    if len(files) != 1:
        raise UsageError("--sql takes one database, such as duckdb:///file.db, in place of files.")
    warn_of_password(files[0])
    return sql(query, files[0])


def warn_of_password(address: str) -> None:
    from ...sources.sql import has_password

    if has_password(address):
        print(f"warning: {_SEEN}", file=sys.stderr)


def _check_suffixes(files: Sequence[str]) -> None:
    for file in files:
        if file.lower().endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz", ".feather", ".arrow", ".ipc")):
            raise UsageError(f"--engine spark reads Parquet and Delta, not {file}. Leave --engine out, or convert it.")


def _session() -> Any:
    """The Spark session that the environment describes; a local one if it says nothing."""
    from ...sources.spark.runtime import ensure_java

    if find_spec("pyspark") is None:
        raise UsageError("--engine spark needs pyspark. Install it: pip install 'ellipsum[spark]'")
    ensure_java()
    if not any(os.environ.get(name) for name in _OWN_SETUP):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return attempt("Spark could not be started. Start pyspark by itself to see why.", _start)


def _start() -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("ellipsum").config("spark.ui.showConsoleProgress", "false")
    with handlers_kept():  # jobs are canceled without Spark's own
        session = builder.getOrCreate()
    if hasattr(session, "_jsc"):
        session.sparkContext.setLogLevel("OFF")  # Spark's error texts quote cells
    return session


def _read(session: Any, files: Sequence[str]) -> Any:
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
