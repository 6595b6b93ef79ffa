"""Forecasts: what a request would give, from public numbers alone, and the error against epsilon."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...api import plan as make_plan
from ...display.wording import describe_guarantee
from ...errors import UsageError
from .asks import Ask

LEAST, MOST = 0.01, 10.0
"""The ends of the slider, which goes by hundredths of powers of ten: -200 to 100."""
_SHARES = (0, 1, 1 / 2, 1 / 4, 3 / 4, *(k / 12 for k in (1, 2, 4, 5, 7, 8, 10, 11)))
_FEWEST = 5
_PATIENCE_SECONDS = 1.0
_KEPT = 64
_LAWS = {
    "gaussian": "Gaussian",
    "ball": "spherical",
    "box": "pure epsilon, in blocks of columns",
}
_UNTOLD = 1e300  # a target that any column meets


@dataclass(frozen=True)
class Forecast:
    """What a plan forecasts. unit: what its error is measured in."""

    epsilon: float
    delta: float
    error: float | None
    unit: str
    columns: tuple[tuple[str, float], ...]
    """The forecast error of each column."""
    law: str
    guarantee: str
    doubt: str | None
    advice: str | None
    """What to state so that an error can be forecast, where none is."""


def forecast(ask: Ask, n: int | None, error_of: int | None = None) -> Forecast:
    """The forecast at the epsilon and delta of a request; error_of: the place of the column whose error is asked."""
    return _read(plan_of(ask, n), ask, error_of)


def plan_of(ask: Ask, n: int | None) -> Any:
    """The plan of a request for n rows."""
    return make_plan(ask.rows(), epsilon=ask.epsilon, delta=ask.delta, **ask.plan_words(n))


def for_error(ask: Ask, n: int | None, error: float, error_of: int | None = None) -> Forecast:
    """The forecast at the least epsilon whose error is this or less."""
    if error <= 0:
        raise UsageError("error must be above 0.")
    target: Any = error
    if error_of is not None and ask.kind != "learned":
        target = [error if place == error_of else _UNTOLD for place in range(len(ask.columns))]
    made: Any = make_plan(ask.rows(), delta=ask.delta, error=target, **ask.plan_words(n))
    return _read(made, ask, error_of)


def _read(made: Any, ask: Ask, error_of: int | None) -> Forecast:
    errors = _column_errors(made)
    if errors is not None and not np.isfinite(errors).all():
        raise UsageError("the forecast leaves the range of numbers. Check the bounds.")
    error = _error(made, errors, error_of)
    named = tuple(zip(ask.columns, map(float, errors), strict=True)) if errors is not None else ()
    return Forecast(
        made.stated["epsilon"],
        made.stated["delta"],
        error,
        _unit(ask, error_of),
        named,
        _law(made),
        describe_guarantee(made.privacy, made.stated),
        made.doubt,
        _advice(ask) if error is None else None,
    )


def _advice(ask: Ask) -> str:
    if ask.by and not ask.keys and ask.groups is None:
        return "For a forecast, type how many groups you expect, or list them."
    return "For a forecast, type the number of rows or people, your guess."


def _column_errors(made: Any) -> Any:
    return None if made.expected_squared_error is None else made.column_errors()


def _error(made: Any, errors: Any, error_of: int | None) -> float | None:
    if made.rows.kind == "unknown":
        return None if made.relative_error is None else float(made.relative_error)
    if errors is None:
        return None
    if error_of is not None:
        return float(errors[error_of])
    return math.sqrt(made.expected_squared_error)


def _unit(ask: Ask, error_of: int | None) -> str:
    where = " in a group" if ask.by else ""
    if ask.kind == "learned":
        return f"of the rows' own spread, {'in a column of a group' if ask.by else 'all columns together'}"
    if error_of is not None:
        return f"root mean square, of {ask.columns[error_of]}{where}"
    return f"root mean square, all columns together{where}"


def _law(made: Any) -> str:
    return "as learning needs, in several rounds" if made.rows.kind == "unknown" else _LAWS[made.mechanism]


# The curve -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ErrorCurve:
    """Forecast errors at some epsilons; None where there is no forecast."""

    epsilons: tuple[float, ...]
    errors: tuple[float | None, ...]


class Curves:
    """Curves of the last requests: one is made once, however far the slider moves."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, ErrorCurve] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, ask: Ask, n: int | None, error_of: int | None = None) -> ErrorCurve:
        """The curve of a request, whatever its own epsilon is."""
        key = (replace(ask, epsilon=None, ledger=None, dataset=None), n, error_of)
        with self._lock:
            found = self._kept.get(key)
        return found or self._keep(key, curve(ask, n, error_of))

    def _keep(self, key: Any, made: ErrorCurve) -> ErrorCurve:
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return made


def curve(ask: Ask, n: int | None, error_of: int | None = None) -> ErrorCurve:
    """Errors along the slider: its ends, its middle, then points between, for as long as patience lasts."""
    end = time.monotonic() + _PATIENCE_SECONDS
    found: dict[float, float | None] = {}
    for share in _SHARES:
        if len(found) >= _FEWEST and time.monotonic() > end:
            break
        epsilon = LEAST * (MOST / LEAST) ** share
        found[epsilon] = _error_at(replace(ask, epsilon=epsilon), n, error_of)
    return ErrorCurve(tuple(sorted(found)), tuple(found[epsilon] for epsilon in sorted(found)))


def _error_at(ask: Ask, n: int | None, error_of: int | None) -> float | None:
    try:
        return forecast(ask, n, error_of).error
    except UsageError:  # some epsilons may be out of reach
        return None
