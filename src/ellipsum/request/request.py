"""Requests: every argument of a call that decides about a release, checked before any data is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypedDict

from ..errors import (
    MOST_COLUMNS,
    MOST_WHOLE,
    UsageError,
    choice,
    columns_of,
    floats,
    in_column_order,
    listing,
    names,
    whole,
    yes_or_no,
)
from ..privacy.budget import Budget, stated_from_dict
from ..privacy.guarantee import NEIGHBORS
from ..rows import Box, LearnedRows, Rows, Unknown, parse_bounds, rows_from_dict
from ..rows.base import ErrorWeights
from ..util import json_codec
from ..util.structural_equality import ValueEquality
from .bins import Bins, bins_of_columns
from .groups import Groups
from .missing import WORDS, Missing, parse_missing
from .people import People
from .quantiles import QUARTILES, Quantiles, quantiles_of_description

STATISTICS = ("sum", "mean", "describe", "learn", "count", "histogram", "quantiles")
SUMS = ("sum", "count")
"""Statistics that are not divided by the number of rows."""
ONES = Box([1], [1], ("count",))
"""The bounds of a count: each row is a 1 [H1]."""
NOISE = ("auto", "gaussian", "knorm")
_WRONG = "Invalid plan file: the request has missing, unknown or wrong fields. Create a new plan with es.plan."
_NUMBERS = json_codec.list_of(json_codec.number)
MISSING = json_codec.any_of(json_codec.word(*WORDS), json_codec.number, _NUMBERS)
COUNT = json_codec.integer(1, MOST_WHOLE)
_TAKEN = {
    "describe": ("covariance", "quantiles"),
    "quantiles": ("q", "bins", "method"),
    "histogram": ("bins", "categories"),
}


@dataclass(frozen=True)
class Request(ValueEquality):
    """A statistic of rows within bounds, the budget it may spend, and how.

    Calls, plans, ledgers, saved files, the command line and the studio all use it. `sized` fills in the defaults for
    data of known size; plans hold such requests.
    """

    statistic: str
    bounds: Rows
    budget: Budget | None
    """None for a part of a larger release, which has the budget."""
    neighbors: str = "replace"
    n: int | None = None
    columns: Sequence[str | int] | None = None
    people: People | None = None
    groups: Groups | None = None
    missing: Missing = None
    noise: str = "auto"
    error_weights: ErrorWeights = None
    count_clipped: bool | None = True
    """None counts clipped values where that costs no noise."""
    covariance: bool = False
    quantiles: Quantiles | None = None
    d: int | None = None
    nullable: tuple[bool, ...] | None = None
    """For each column, whether its type allows missing values; None where every value may be missing."""

    def __post_init__(self) -> None:
        choice("statistic", self.statistic, STATISTICS)
        choice("neighbors", self.neighbors, NEIGHBORS)
        choice("noise", self.noise, NOISE)
        if self.budget is not None and not isinstance(self.budget, Budget):
            raise UsageError(f"budget must be a Budget, got {type(self.budget).__name__}.")
        if not isinstance(self.covariance, bool) or (self.covariance and self.statistic != "describe"):
            raise UsageError("covariance must be True or False, and is for describe alone.")
        if self.count_clipped is not None:
            yes_or_no("count_clipped", self.count_clipped)
        is_count = self.statistic == "count"
        bounds = ONES if is_count else parse_bounds(self.bounds)
        parsed = {
            "bounds": bounds,
            "budget": None if self.budget is None else self.budget.as_typed(),
            "n": None if self.n is None else whole("n", self.n),
            "missing": parse_missing(self.missing),
            "error_weights": _parse_weights(
                self.error_weights, bounds.columns if self.columns is None else self.columns
            ),
            "nullable": None if self.nullable is not None and all(self.nullable) else self.nullable,
        }
        for name, value in parsed.items():
            object.__setattr__(self, name, value)
        self._check_bounds()
        self._check_quantiles()
        self._check_groups()
        if isinstance(self.bounds, Bins):
            self._check_bins(self.bounds)
        if is_count:
            self._check_count()

    def _check_bounds(self) -> None:
        kind = type(self.bounds).__name__
        if isinstance(self.bounds, Bins) != (self.statistic == "histogram"):
            raise UsageError("bins and categories are for histogram, and a histogram needs them.")
        if self.statistic == "describe" and not self.bounds.clamps:
            raise UsageError(
                f"describe needs bounds for each column, bounds=Box(...), got {kind}. "
                "Pass a Box, or use mean for other bounds."
            )
        if self.statistic == "learn" and not self.learns:
            raise UsageError(f"learn needs bounds=es.Unknown(magnitude), got {kind}.")
        if self.learns and not (self.error_weights is None or isinstance(self.error_weights, str)):
            raise UsageError(
                "error_weights must be 'relative' or 'equal' for Unknown bounds: standard deviations are learned."
            )

    def _check_quantiles(self) -> None:
        is_given = isinstance(self.quantiles, Quantiles)
        if self.statistic != "describe" and (self.statistic == "quantiles") != is_given:
            raise UsageError(f"quantiles must be Quantiles(...) for quantiles, and None for {self.statistic}.")
        if self.quantiles is None:
            return
        if not (self.bounds.clamps or isinstance(self.bounds, (LearnedRows, Unknown))):
            raise UsageError(
                f"quantiles need bounds=Box(...), Unknown(...) or learned ones, got {type(self.bounds).__name__}."
            )

    def _check_groups(self) -> None:
        groups = self.groups
        if groups is None:
            return
        if self.covariance:
            raise UsageError("covariance=True is not supported in groups. Leave it out, or leave by out.")
        if groups.max_per_person > 1 and self.people is None:
            raise UsageError(
                "max_per_person needs privacy_id, the column that identifies people. Without it, each row is "
                "in one group."
            )
        if self.people is not None and self.people.rows_each is not None:
            raise UsageError(
                "per_person='rows' cannot be combined with by=: a person has one row in each group. "
                "Use 'mean' or 'sum'."
            )

    def _check_bins(self, bins: Bins) -> None:
        groups, people = self.groups, self.people
        if self.missing not in (None, "skip"):
            raise UsageError("A histogram counts missing values as (other). Leave missing out.")
        if groups is not None and groups.keys is None:
            raise UsageError(
                "A histogram with by= needs keys=, the list of groups. Use count for groups that are not listed."
            )
        if people is not None and people.rows_each is None and bins.categories:
            raise UsageError(
                "Categories have no mean or sum. Pass per_person='rows' and max_rows, the largest number of "
                "rows of a person that "
                "count (1 counts people), or use count with by=, which counts people in groups."
            )
        beside = [*(groups.by if groups else ()), *([people.privacy_id] if people else ())]
        both = {str(place) for place in bins.places or ()} & {str(name) for name in beside}
        if both:
            raise UsageError(f"bins or categories name {listing(sorted(both))}, as by or privacy_id do. Leave it out.")

    def _check_count(self) -> None:
        """Check a count, which reads only the person and the group of a row."""
        if self.missing not in (None, "none"):
            raise UsageError("A count includes rows with missing values. Leave missing out.")
        object.__setattr__(self, "missing", "none")
        object.__setattr__(self, "count_clipped", False)
        several = self.people is not None and self.people.rows_each is not None
        if self.budget is not None and self.neighbors == "replace" and self.groups is None and not several:
            unit = "rows" if self.people is None else "people"
            raise UsageError(
                f"The number of {unit} is public under neighbors='replace': count them yourself, which spends nothing. "
                "Pass neighbors='add_remove' for a noisy count, or by= for the counts of groups."
            )

    @property
    def learns(self) -> bool:
        """Whether bounds are learned first."""
        return isinstance(self.bounds, Unknown) and self.quantiles is None

    @property
    def stated(self) -> dict[str, float]:
        """The requested budget: epsilon and delta, mu, or rho; empty for a part of a larger release."""
        return {} if self.budget is None else dict(self.budget.stated)

    def sized(
        self,
        n: int | None,
        d: int | None,
        columns: Sequence[str | int] | None = None,
        nullable: Sequence[bool] | None = None,
    ) -> Request:
        """The request with its defaults filled in, for n rows (a guess where n is private) of d columns."""
        if n is None and self.neighbors == "replace":
            raise UsageError("n is missing. Pass the number of rows; it is public under neighbors='replace'.")
        if isinstance(self.bounds, Bins):  # A histogram reads its columns by name, and other columns do not matter.
            d, nullable = None, None
            columns = columns if self.bounds.places is None else self.bounds.columns
        named = names("columns", columns) or self.bounds.columns
        _check_names(self.bounds, named)
        width = _width(self.bounds, d, named)
        count_clipped = not self.bounds.is_hard_bound if self.count_clipped is None else bool(self.count_clipped)
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

    def _usual_weights(self, named: tuple[str, ...] | None) -> ErrorWeights:
        """The requested weights; by default relative if columns have names, since their units may differ."""
        if self.error_weights is not None or not _have_own_names(named):
            return self.error_weights
        bounds = self.bounds
        return (
            "relative"
            if self.learns or (bounds.kind in ("box", "normal") and getattr(bounds, "shape", "optimal") == "optimal")
            else None
        )

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
            **({} if self.quantiles is None else {"quantiles": self.quantiles.to_dict()}),
        }


class HoldsRequest:
    """Base of objects with a sized request: its fields as properties."""

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


def request_from_dict(saved: object) -> Request:
    """Inverse of `Request.to_dict`, for sized requests."""
    with json_codec.Fields(saved, _WRONG) as fields:
        request = Request(
            statistic=fields.take("statistic", json_codec.word(*STATISTICS)),
            bounds=fields.take("bounds", _bounds_from_dict),
            budget=fields.maybe("budget", lambda stated: Budget(**stated_from_dict(stated))),
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
            quantiles=fields.take("quantiles", Quantiles.from_dict, None),
        )
    if request.nullable is not None and len(request.nullable) != request.d:
        raise UsageError(_WRONG)
    return request


def _bounds_from_dict(saved: object) -> Rows:
    is_bins = isinstance(saved, Mapping) and saved.get("kind") == Bins.kind
    return Bins.from_dict(saved) if is_bins else rows_from_dict(saved)


def _parse_weights(weights: ErrorWeights, columns: Sequence[str | int] | None) -> str | tuple[float, ...] | None:
    if weights is None:
        return None
    if isinstance(weights, str):
        return choice("error_weights", weights, ("relative", "equal"))
    numbers = floats("error_weights", in_column_order("error_weights", weights, columns))
    if numbers.ndim != 1:
        raise UsageError("error_weights must be 'relative', 'equal', or one number per column.")
    return tuple(numbers.tolist())


def _have_own_names(named: tuple[str, ...] | None) -> bool:
    """Whether columns have their own names; parts of a list column are called name[0], name[1], ..."""
    return named is not None and not all(name.endswith(f"[{j}]") for j, name in enumerate(named))


def _check_names(bounds: Rows, named: tuple[str, ...] | None) -> None:
    """Check that bounds and columns have the same names in the same order, as bounds are used by position."""
    if bounds.columns and named and bounds.columns != named:
        raise UsageError(
            f"bounds and columns must name the same columns in one order. bounds: {listing(bounds.columns)}; "
            f"columns: {listing(named)}. "
            "Leave columns out, or use the same order."
        )


def _width(bounds: Rows, d: int | None, named: tuple[str, ...] | None) -> int:
    widths = {columns_of("d", d)} if d is not None else set()
    widths |= {bounds.d} if bounds.d is not None else set()
    widths |= {len(named)} if named is not None else set()
    if not widths:
        raise UsageError("d is missing. Pass the number of columns, or bounds with vectors or names.")
    if len(widths) > 1:
        raise UsageError(f"d, bounds and columns give different numbers of columns: {listing(sorted(widths))}.")
    return widths.pop()


# Arguments of single statistics ---------------------------------------------------------------------------


class OwnArguments(TypedDict, total=False):
    """The arguments that only some statistics have, as keywords."""

    covariance: bool
    quantiles: float | Sequence[float] | None
    q: float | Sequence[float]
    bins: Any
    categories: Any
    method: str


@dataclass(frozen=True)
class StatisticOptions:
    """The arguments that `es.plan` and `es.prepare` accept for some statistics only."""

    covariance: bool = False
    quantiles: float | Sequence[float] | None = QUARTILES
    q: float | Sequence[float] = QUARTILES
    bins: Any = None
    categories: Any = None
    method: str = "cdf"

    def _check(self, statistic: str) -> None:
        for field in fields(self):
            is_given = getattr(self, field.name) is not field.default
            if is_given and field.name not in _TAKEN.get(statistic, ()):
                owners = " and ".join(name for name, taken in _TAKEN.items() if field.name in taken)
                raise UsageError(f"{field.name} is an argument of {owners}, not of {statistic}. Leave it out.")

    def parse_quantiles(self, statistic: str) -> Quantiles | None:
        """The quantiles of a description or of `es.quantiles`."""
        if statistic == "describe":
            return quantiles_of_description(self.quantiles)
        return Quantiles.of(self.q, self.bins, self.method) if statistic == "quantiles" else None

    def bounds(
        self, statistic: str, bounds: Rows | Mapping[str, Any] | None, columns: Sequence[str | int] | None
    ) -> Rows:
        """The bounds of a request: of a histogram its bins, of a count ones."""
        self._check(choice("statistic", statistic, STATISTICS))
        if statistic not in ("count", "histogram") or isinstance(bounds, Bins):
            return parse_bounds(bounds)
        if bounds is not None:
            raise UsageError(f"{statistic} has no bounds. Leave them out.")
        return bins_of_columns(self.bins, self.categories, columns) if statistic == "histogram" else ones(columns)


OWN = tuple(field.name for field in fields(StatisticOptions))


def ones(columns: Sequence[str | int] | None) -> Rows:
    """The bounds of a count, which reads no columns."""
    if columns is not None:
        raise UsageError("A count reads no columns: it counts rows. Use histogram or describe for counts of values.")
    return ONES
