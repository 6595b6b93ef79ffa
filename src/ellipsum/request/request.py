"""What is asked for: every argument of a call that decides about a release, checked before any data is opened."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import MOST_COLUMNS, MOST_WHOLE, UsageError, choice, columns_of, floats, listing, names, whole
from ..privacy.budget import Budget, stated_from_dict
from ..privacy.guarantee import NEIGHBORS
from ..rows import Rows, Unknown, parse_bounds, rows_from_dict
from ..util import json_codec
from ..util.structural_equality import Alike
from .groups import Groups
from .missing import WORDS, parse_missing
from .people import People

STATISTICS = ("sum", "mean", "describe", "learn")
NOISE = ("auto", "gaussian", "norm")
_WRONG = "the request has missing, unknown or wrong fields. Create a new plan with es.plan."
_NUMBERS = json_codec.list_of(json_codec.number)
MISSING = json_codec.any_of(json_codec.word(*WORDS), json_codec.number, _NUMBERS)
COUNT = json_codec.integer(1, MOST_WHOLE)


@dataclass(frozen=True)
class Request(Alike):
    """A statistic of rows within bounds, the budget it may spend, and how.

    The only carrier from a call to its plan, the ledger, saved files, the command line and the studio. `sized` writes
    out the defaults for data of known size; plans hold such requests.
    """

    statistic: str
    bounds: Rows
    budget: Budget | None
    """None: one part of a larger release, whose budget is stated there."""
    neighbors: str = "replace"
    n: int | None = None
    columns: tuple[str | int, ...] | None = None
    people: People | None = None
    groups: Groups | None = None
    missing: Any = None
    noise: str = "auto"
    error_weights: Any = None
    count_clipped: bool | None = True
    """None counts what is clipped where that costs no noise."""
    covariance: bool = False
    d: int | None = None
    nullable: tuple[bool, ...] | None = None
    """For each column, whether a value can be missing by its type; None where every one may be."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", parse_bounds(self.bounds))
        choice("statistic", self.statistic, STATISTICS)
        if self.budget is not None and not isinstance(self.budget, Budget):
            raise UsageError(f"budget must be a Budget, got {type(self.budget).__name__}.")
        if self.statistic == "describe" and not self.bounds.clamps:
            raise UsageError(
                f"describe needs bounds for each column, bounds=Box(...), got {type(self.bounds).__name__}. "
                "Pass a Box, or use mean for other bounds."
            )
        if self.statistic == "learn" and not self.learns:
            raise UsageError(f"bounds must be Unknown(magnitude) to be learned, got {type(self.bounds).__name__}.")
        choice("neighbors", self.neighbors, NEIGHBORS)
        choice("noise", self.noise, NOISE)
        if not isinstance(self.covariance, bool) or (self.covariance and self.statistic != "describe"):
            raise UsageError("covariance must be True or False, and is for describe alone.")
        if self.count_clipped is not None and not isinstance(self.count_clipped, (bool, np.bool_)):
            raise UsageError(f"count_clipped must be True or False, got {type(self.count_clipped).__name__}.")
        if self.nullable is not None and all(self.nullable):
            object.__setattr__(self, "nullable", None)
        object.__setattr__(self, "missing", parse_missing(self.missing))
        object.__setattr__(self, "error_weights", _parse_weights(self.error_weights))
        if self.n is not None:
            object.__setattr__(self, "n", whole("n", self.n))
        self._check_groups()
        if self.learns and not (self.error_weights is None or isinstance(self.error_weights, str)):
            raise UsageError("error_weights must be 'relative' or 'equal' for Unknown bounds: spreads are learned.")

    def _check_groups(self) -> None:
        groups = self.groups
        if groups is None:
            return
        if self.covariance:
            raise UsageError("covariance=True is not supported in groups. Leave it out, or leave by out.")
        if groups.max_per_person > 1 and self.people is None:
            raise UsageError("max_per_person needs privacy_id, the column that identifies people: a row has one group.")

    @property
    def learns(self) -> bool:
        """Whether bounds have to be learned first."""
        return isinstance(self.bounds, Unknown)

    @property
    def stated(self) -> dict[str, float]:
        """The budget in the caller's words: epsilon and delta, mu, or rho; nothing for a part of a larger release."""
        return {} if self.budget is None else dict(self.budget.stated)

    def sized(self, n: int | None, d: int | None, columns: Any = None, nullable: Any = None) -> Request:
        """The request for n rows (a guess where n is private) of d columns, its defaults written out."""
        if n is None and self.neighbors == "replace":
            raise UsageError("n is missing. Pass the number of rows; it is public under neighbors='replace'.")
        named = names("columns", columns) or self.bounds.columns
        _check_names(self.bounds, named)
        width = _width(self.bounds, d, named)
        count_clipped = not self.bounds.firm if self.count_clipped is None else bool(self.count_clipped)
        return replace(
            self,
            bounds=self.bounds.resolve(width),
            n=None if n is None else whole("n", n),
            d=width,
            columns=named,
            groups=None if self.groups is None else self.groups.without_labels(),
            error_weights=self._usual_weights(named),
            count_clipped=count_clipped if not self.learns else self.count_clipped,
            nullable=None if nullable is None else tuple(nullable),
        )

    def _usual_weights(self, named: tuple[str, ...] | None) -> Any:
        """As stated; else relative where columns have names of their own, since they share no unit."""
        if self.error_weights is not None or not _have_own_names(named):
            return self.error_weights
        bounds = self.bounds
        return "relative" if self.learns or (bounds.kind in ("box", "normal") and _shape(bounds) == "optimal") else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "statistic": self.statistic,
            "bounds": self.bounds.to_dict(),
            "budget": None if self.budget is None else self.stated,
            "neighbors": self.neighbors,
            "n": self.n,
            "d": self.d,
            "columns": None if self.columns is None else list(self.columns),
            "people": None if self.people is None else self.people.to_dict(),
            "groups": None if self.groups is None else self.groups.to_dict(),
            "missing": self.missing,
            "noise": self.noise,
            "error_weights": self.error_weights,
            "count_clipped": self.count_clipped,
            "covariance": self.covariance,
            "nullable": None if self.nullable is None else list(self.nullable),
        }


class HoldsRequest:
    """What a sized request says, for whatever holds one."""

    request: Request

    @property
    def rows(self) -> Rows:
        return self.request.bounds

    @property
    def statistic(self) -> str:
        return self.request.statistic

    @property
    def n(self) -> int | None:
        return self.request.n

    @property
    def d(self) -> int:
        assert self.request.d is not None
        return self.request.d


def request_from_dict(saved: Any) -> Request:
    """Inverse of `Request.to_dict`, for sized requests."""
    with json_codec.Fields(saved, _WRONG) as fields:
        request = Request(
            statistic=fields.take("statistic", json_codec.word(*STATISTICS)),
            bounds=fields.take("bounds", rows_from_dict),
            budget=fields.maybe("budget", _budget_from_dict),
            neighbors=fields.take("neighbors", json_codec.word(*NEIGHBORS)),
            n=fields.maybe("n", COUNT),
            d=fields.take("d", json_codec.integer(1, MOST_COLUMNS)),
            columns=fields.maybe("columns", json_codec.names),
            people=fields.maybe("people", People.from_dict),
            groups=fields.maybe("groups", Groups.from_dict),
            missing=fields.maybe("missing", MISSING),
            noise=fields.take("noise", json_codec.word(*NOISE)),
            error_weights=fields.maybe(
                "error_weights", json_codec.any_of(json_codec.word("relative", "equal"), _NUMBERS)
            ),
            count_clipped=fields.maybe("count_clipped", json_codec.flag),
            covariance=fields.take("covariance", json_codec.flag),
            nullable=fields.maybe("nullable", json_codec.list_of(json_codec.flag)),
        )
    if request.nullable is not None and len(request.nullable) != request.d:
        raise UsageError(_WRONG)
    return request


def _budget_from_dict(saved: Any) -> Budget:
    return Budget(**stated_from_dict(saved)).as_typed()


def _parse_weights(weights: Any) -> Any:
    if weights is None:
        return None
    if isinstance(weights, str):
        return choice("error_weights", weights, ("relative", "equal"))
    numbers = floats("error_weights", weights)
    if numbers.ndim != 1:
        raise UsageError("error_weights must be 'relative', 'equal', or one number per column.")
    return tuple(numbers.tolist())


def _shape(bounds: Rows) -> Any:
    return getattr(bounds, "shape", "optimal")


def _have_own_names(named: tuple[str, ...] | None) -> bool:
    """Not the entries of one list column: name[0], name[1], ..."""
    return named is not None and not all(name.endswith(f"[{j}]") for j, name in enumerate(named))


def _check_names(bounds: Rows, named: tuple[str, ...] | None) -> None:
    """Bounds describe columns by their place, so names that both state must be the same, in the same places."""
    if bounds.columns and named and bounds.columns != named:
        how = "in another order" if sorted(bounds.columns) == sorted(named) else "otherwise"
        raise UsageError(
            f"bounds name the columns {listing(bounds.columns)}, and columns names them {how}: {listing(named)}. "
            "Name the same ones in one order, or leave columns out."
        )


def _width(bounds: Rows, d: int | None, named: tuple[str, ...] | None) -> int:
    widths = {columns_of("d", d)} if d is not None else set()
    widths |= {bounds.d} if bounds.d is not None else set()
    widths |= {len(named)} if named is not None else set()
    if not widths:
        raise UsageError("d is missing. Pass the number of columns, or bounds with vectors or names.")
    if len(widths) > 1:
        raise UsageError(f"d, bounds and columns disagree on the number of columns: {sorted(widths)}.")
    return widths.pop()
