"""The words that calls share: what each means, written once, and wrong ones refused before anything is opened."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from difflib import get_close_matches
from functools import cache, wraps
from textwrap import fill
from typing import Any, TypeVar, cast

import numpy as np

from ..errors import UsageError

Call = TypeVar("Call", bound=Callable[..., Any])
LEDGER = "ELLIPSUM_LEDGER"
"""The environment's word for `ledger`."""
_WIDTH = 112
_OWN = re.compile(r"^(\w+): (.*(?:\n +\S.*)*)(?:\n|\Z)", re.MULTILINE)  # an argument that a docstring explains itself

MEANINGS = {
    "data": "a numpy array, anything that speaks the Arrow stream protocol (pandas, polars, pyarrow, DuckDB), a list "
    "of batches, a path, glob or folder of CSV, Parquet or Feather files, a query (`ellipsum.sql`), a Spark frame, a "
    "dict of columns, a list of records (dicts; columns or rows must name their keys) or a list of rows (lists or "
    "tuples; as many entries as the first).",
    "rows": "what is known about a row: Ball, Box, Normal or Unknown.",
    "epsilon": "with delta: the privacy budget. There is no default.",
    "delta": "with epsilon: the privacy budget. There is no default.",
    "budget": "a Budget, in place of epsilon and delta.",
    "neighbors": 'what is hidden: "replace" (one row changed, n public) or "add_remove" (one row more or '
    "less, n private).",
    "n": 'under "add_remove" your public guess of the number of rows; under "replace" rows are counted.',
    "columns": "the columns to use, in this order (default: those that rows name, else all but privacy_id).",
    "header": "of CSV files: True says that a first line which looks like data is a header all the same.",
    "privacy_id": "the column that identifies people, or `People(name, per_person=, max_rows=)`; "
    "each person's rows become one, and rows and n "
    "then speak of people.",
    "per_person": 'what a person\'s rows become: "mean" (default), or "sum" of at most max_rows of them; "rows" leaves '
    "max_rows of them as they are: the statistic is over rows then (visits, not patients), and rows describes one.",
    "max_rows": "with privacy_id: so many of a person's rows count at most.",
    "max_rows_per_person": "with privacy_id: so many of a person's rows count at most.",
    "by": "the column, or columns, whose cells name a row's group, an array with a cell for each row, or "
    "`Groups(by, keys=)`: the statistic "
    "is published for each group. A missing cell names no group, unless keys lists it.",
    "keys": "with by: the groups, if they are public: a list (of tuples, where by names several columns), a frame, or "
    "a dict with a list for each column of by, whose combinations they are. All of them are published. Without it "
    "groups are published where their noisy count is large enough.",
    "max_groups": "with by and privacy_id: so many groups of a person count at most (default 1), one row in each.",
    "shape": 'of the clip region: "optimal", "ball" for equal noise in every column, or "closed_form" (Normal rows).',
    "clip": 'Normal rows: "optimal", "quantile", or a radius in the scaled space where E|y|^2 = 1.',
    "clip_probability": 'with clip="quantile": the share of rows that is clipped (default 1/n).',
    "weights": 'what the squared error is measured in: "relative", each column in units of its own stated spread (the '
    'default where columns have names), "equal", plain units (the default for nameless vectors), or one per column.',
    "noise": 'the law of the noise: "auto" takes the one of least forecast error for this budget; "gaussian"; "norm" '
    "is spherical, or pure epsilon in blocks of columns. With delta=0 it is pure.",
    "missing": 'what a missing, NaN or infinite entry does: "column", each column is over the rows that have it, with '
    'a noisy count of its own (default; Ball: "row", a row with one is left out); "center", it counts as the center; a '
    "number, or one per column, is filled in.",
    "check": "count what is clipped, so that intervals and warnings can speak of it (default True).",
    "covariance": "covariances and correlations of the columns too, for up to 1.42 times the noise of everything. Rows "
    "must then be complete: missing='row' leaves others out.",
    "error": "in place of epsilon: a root mean square error that the plan shall meet.",
    "method": 'Unknown rows: "auto", "coinpress", "instance_optimal", "variance_aware" or "friendly_core".',
    "steps": "a published method's own number of rounds.",
    "std": 'method="coinpress": a bound on the spread of every column.',
    "clip_share": 'method="instance_optimal": the share of the budget that finds the radius.',
    "rng": "a numpy Generator in place of the operating system's entropy, for tests and teaching: such a release is "
    "marked secure=False and protects nobody.",
    "threads": "threads to use (default: all cores).",
    "progress": "called with the fraction of the work that is done.",
    "ledger": "a Ledger, or the address of one, that the release is charged to before any value is read; needs "
    "dataset. Without it the environment's ELLIPSUM_LEDGER is the ledger.",
    "dataset": "the name under which the ledger keeps this data's budget, maybe with a version after an @ that is "
    "written down: survey@2026.",
    "key": "a name for this request: the same call with the same key again returns the release that the ledger stored, "
    "costs nothing, and has stored=True.",
    "analyst": "who asks, where the ledger has caps for analysts.",
    "approve": "called with the plan before any value is read; an exception that it raises ends the call.",
}


def public(call: Call) -> Call:
    """A public call: its docstring explains every shared word, and an unknown keyword is refused by name."""
    parameters = inspect.signature(call).parameters
    call.__doc__ = _documented(call.__doc__ or "", list(parameters))

    @wraps(call)
    def checked(*arguments: Any, **words: Any) -> Any:
        for word in words:
            if word not in parameters:
                raise UsageError(_unknown(call.__name__, word, list(parameters)))
        with np.errstate(all="ignore"):  # what the caller set for arithmetic of their own is not for ours
            return call(*arguments, **words)

    return cast(Call, checked)


def _unknown(call: str, word: str, known: list[str]) -> str:
    near = get_close_matches(word, known, 1)
    advice = f"Did you mean {near[0]}?" if near else f"It takes {', '.join(known)}."
    return f"{call} has no argument {word!r}. {advice}"


def _documented(text: str, parameters: list[str]) -> str:
    """The docstring with its arguments at the end, in their order: its own words on them, else what all calls say."""
    text = inspect.cleandoc(text)
    own = {name: " ".join(meaning.split()) for name, meaning in _OWN.findall(text) if name in parameters}
    told = {name: own.get(name) or MEANINGS[name] for name in parameters if name in own or name in MEANINGS}
    if not told:
        return text
    rest = _OWN.sub(lambda item: "" if item[1] in parameters else item[0], text)
    lines = [_explained(name, meaning) for name, meaning in told.items()]
    return "\n".join([rest.rstrip(), "", "Arguments:", *lines])


@cache
def _explained(name: str, meaning: str) -> str:
    return fill(f"{name}: {meaning}", _WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8)
