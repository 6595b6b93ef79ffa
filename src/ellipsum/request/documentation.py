"""The documentation of arguments that public calls share; unknown arguments are refused with the nearest name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import wraps
from textwrap import fill
from typing import Any, TypeVar, cast

import numpy as np

from ..errors import refuse_unknown
from .request import OWN

Call = TypeVar("Call", bound=Callable[..., Any])
LEDGER = "ELLIPSUM_LEDGER"
"""The environment variable that holds the address of a ledger."""
_WIDTH = 116
_SECTIONS = ("Parameters", "Returns", "Raises", "Warns", "See Also", "Notes", "References", "Examples")
_HEADING = re.compile(rf"^({'|'.join(_SECTIONS)})\n-+\n", re.MULTILINE)  # of numpydoc
_ENTRY = re.compile(r"^\**(\w+)(?: : .*)?\n(?:(?: +.*)?\n)*", re.MULTILINE)

PARAMETERS = {
    "data": (
        "array, DataFrame, path or query",
        "A numpy array; any object with the Arrow PyCapsule interface (pandas, polars, pyarrow, DuckDB); a list "
        "of batches; a path, glob or folder of CSV, Parquet or Feather files; a query (`ellipsum.sql`); a Spark "
        "data frame; a dict of columns; or a list of records or rows.",
    ),
    "bounds": (
        "dict, Box, Ball, Normal or Unknown",
        "What is publicly known about the values, for example a dict with (lower, upper) for each column. It must "
        "not be computed from the data.",
    ),
    "epsilon": ("float", "Privacy-loss parameter, together with `delta`. There is no default."),
    "delta": ("float", "Privacy-loss parameter; 0 asks for pure differential privacy. There is no default."),
    "budget": ("Budget", "Replaces `epsilon` and `delta`: `Budget(mu=)` or `Budget(rho=)`."),
    "neighbors": (
        '{"replace", "add_remove"}',
        'Neighboring relation: "replace" (bounded DP, n is public) or "add_remove" (unbounded DP, n is private).',
    ),
    "n": (
        "int",
        'Under "add_remove" a public guess of the number of rows. Under "replace" rows are counted, and n is checked.',
    ),
    "columns": (
        "list of str or int",
        "Columns to use, in this order. By default those that `bounds` name, else all except `privacy_id`.",
    ),
    "privacy_id": (
        "str, int or People",
        "Name of the column that identifies people, or `People(name, per_person=, max_rows=)`. The rows of a "
        "person then count as one, and the guarantee is for people.",
    ),
    "by": (
        "str, int, list, array or Groups",
        "Grouping column or columns, an array with a group for each row, or `Groups(by, keys=, max_per_person=, "
        "expected=)`. Without keys, groups are selected privately.",
    ),
    "missing": (
        '{"skip", "drop_row", "none"} or float',
        'Treatment of missing, NaN and infinite values. "skip" (default): each column uses its non-missing '
        'values. "drop_row" (default for Ball): a row with a missing value is left out. "none": you state that '
        "columns are complete; a missing value then counts as the center. A number, or one per column, is filled "
        "in.",
    ),
    "noise": (
        '{"auto", "gaussian", "knorm"}',
        'Mechanism. "auto" takes the one with the smallest expected error; "knorm" is the K-norm mechanism '
        "(Laplace noise for a single number).",
    ),
    "error_weights": (
        '{"relative", "equal"}, dict or list of float',
        'Meaning of the smallest error. "relative": relative to the range or standard deviation of each column '
        '(default for named columns). "equal": in the data\'s units (default for arrays). Or one weight per '
        "column.",
    ),
    "count_clipped": ("bool", "Also count clipped values, so that intervals and warnings account for them."),
    "ledger": (
        "DatasetAccount",
        'Account that is charged before any value is read: `Ledger("budget.db").dataset("survey", analyst="ana")`.',
    ),
    "request_id": (
        "str",
        "Name of this request in the ledger. The same call with the same `request_id` returns the stored release "
        "and costs nothing.",
    ),
    "rng": (
        "numpy.random.Generator",
        "Replaces the operating system's entropy in tests. Such a release is not differentially private: `secure` "
        "is False.",
    ),
    "threads": ("int", "Number of threads. By default all cores."),
    "progress": ("callable", "Called with the fraction of the work that is done."),
    "covariance": (
        "bool",
        "Also release covariances and correlations, for up to 1.42 times the noise of everything. Rows must be "
        'complete: pass `missing="drop_row"` to leave others out.',
    ),
    "quantiles": (
        "list of float",
        "Probabilities of the quantiles in a description. They get half of the budget. None or () leaves them out.",
    ),
    "q": ("float or list of float", "Probabilities between 0 and 1."),
    "approve": (
        "callable",
        "Called with the plan before any value is read. An exception that it raises ends the call.",
    ),
}
"""Name of an argument: (its type, its meaning)."""
_RAISES = {
    "UsageError": "If an argument is missing or invalid. No budget is spent.",
    "DataError": "If the data cannot be read.",
    "BudgetRefused": "If the ledger has too little budget left. No budget is spent.",
}
_WARNS = {"AccuracyWarning": "If the noise is large, or many values were clipped."}


def public(call: Call) -> Call:
    """Decorate a public call: complete its numpydoc docstring, and refuse unknown keywords with the nearest name."""
    parameters = inspect.signature(call).parameters
    call.__doc__ = _complete(inspect.cleandoc(call.__doc__ or ""), parameters)
    accepted = [*parameters, *(OWN if "own" in parameters else ())]
    takes_more = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())

    @wraps(call)
    def checked(*arguments: Any, **keywords: Any) -> Any:
        if "own" in parameters or not takes_more:
            refuse_unknown(call.__name__, keywords, accepted)
        with np.errstate(all="ignore"):  # A caller who turned warnings into errors would see private values in them.
            return call(*arguments, **keywords)

    return cast(Call, checked)


def _complete(text: str, parameters: Mapping[str, inspect.Parameter]) -> str:
    """Add the parameters that the docstring leaves out, in order, and the errors that all calls share."""
    parts = _HEADING.split(text)
    sections = dict(zip(parts[1::2], (f"{part.strip()}\n" for part in parts[2::2]), strict=True))
    entries = {entry[1]: entry[0].rstrip() for entry in _ENTRY.finditer(sections.get("Parameters", ""))}
    for name, (kind, meaning) in PARAMETERS.items():
        if name in parameters:
            entries.setdefault(name, _entry(name, parameters[name], kind, meaning))
    sections["Parameters"] = "\n".join(entries[name] for name in parameters if name in entries)
    if "ledger" in parameters:
        sections.setdefault("Raises", _describe_entries(_RAISES))
        sections.setdefault("Warns", _describe_entries(_WARNS))
    filled = [f"{name}\n{'-' * len(name)}\n{sections[name].rstrip()}" for name in _SECTIONS if sections.get(name)]
    return "\n\n".join([parts[0].strip(), *filled]) + "\n"


def _entry(name: str, parameter: inspect.Parameter, kind: str, meaning: str) -> str:
    """One parameter in the format of numpydoc."""
    default = parameter.default
    if default is None and name not in ("epsilon", "delta"):
        kind = f"{kind}, optional"
    elif default not in (None, inspect.Parameter.empty):
        kind = f"{kind}, default {default!r}"
    return f"{name} : {kind}\n{_indent(meaning)}"


def _describe_entries(entries: Mapping[str, str]) -> str:
    return "\n".join(f"{name}\n{_indent(meaning)}" for name, meaning in entries.items())


def _indent(text: str) -> str:
    return fill(" ".join(text.split()), _WIDTH, initial_indent="    ", subsequent_indent="    ")
