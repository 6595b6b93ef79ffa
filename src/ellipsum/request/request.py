"""What is asked for, before any data: every word of a call, checked once, whoever says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import (
    UsageError,
    choice,
    columns_of,
    listing,
    names,
    whole,
)
from ..plans.base import register_remaker
from ..plans.build import NOISE, Terms
from ..plans.json import STATISTICS
from ..plans.noise_selection import plan_statistic
from ..plans.plan import Plan
from ..privacy.budget import Budget
from ..privacy.guarantee import NEIGHBORS
from ..releases.release import register_more
from ..rows import Rows, Unknown, Wishes, checked_rows
from .missing import Handling
from .people import People

if TYPE_CHECKING:  # imported when rows are learned or have groups
    from ..learning.plan import LearningPlan
    from ..plans.group_plan import GroupPlan
    from .groups import Grouping

_Size: TypeAlias = tuple[str, int | None, int, Budget, str, tuple[str, ...] | None, People | None]
_PLAIN = Wishes()
_USUAL = Handling()
_LEARNED = ("rows", "statistic", "n", "d", "budget", "neighbors", "columns", "people")
_WISHES = ("shape", "clip", "clip_probability", "weights")


@dataclass(frozen=True)
class Request:
    """A statistic of rows that are known so far, within a budget, for a neighboring relation.

    method and options are for rows that are learned, wishes for those whose region is laid from what is stated.
    """

    statistic: str
    rows: Rows
    budget: Budget
    neighbors: str = "replace"
    n: int | None = None
    people: People | None = None
    wishes: Wishes = _PLAIN
    method: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    handling: Handling = _USUAL
    noise: str = "auto"
    covariance: bool = False
    grouping: Grouping | None = None
    groups: int | None = None
    """The number of groups that is expected, where they are not listed."""
    later: bool = False
    """Whether bounds are learned for later releases."""

    def __post_init__(self) -> None:
        choice("statistic", self.statistic, STATISTICS)
        checked_rows(self.rows)
        if self.statistic == "describe" and not self.rows.clamps:
            raise UsageError(
                f"describe needs bounds for each column, rows=Box(...), got {type(self.rows).__name__}. "
                "State bounds, or use mean for other rows."
            )
        choice("neighbors", self.neighbors, NEIGHBORS)
        choice("noise", self.noise, NOISE)
        if not isinstance(self.covariance, bool) or (self.covariance and self.statistic != "describe"):
            raise UsageError("covariance must be True or False, and is for describe alone.")
        if self.n is not None:
            whole("n", self.n)
        if self.grouping is not None and self.covariance:
            raise UsageError("covariance=True is not served in groups. Leave it out, or describe all rows together.")
        if self.groups is not None and self.grouping is None:
            raise UsageError("groups needs by, the columns that name a row's group.")
        if self.learns:
            self._check_learned()
        elif not _is(self.method, "auto") or self.options:
            said = ", ".join(["method"] * (not _is(self.method, "auto")) + list(self.options))
            raise UsageError(f"{said} is for Unknown rows. Leave it out.")

    @property
    def learns(self) -> bool:
        """Whether the rows have to be learned first."""
        return isinstance(self.rows, Unknown)

    def _check_learned(self) -> None:
        wishes = self.wishes
        plain = _is(wishes.shape, "optimal") and _is(wishes.clip, "optimal")
        if not plain or wishes.clip_probability is not None:
            raise UsageError("shape and clip cannot be chosen for Unknown rows: they are learned.")
        if wishes.weights is not None and not (_is(wishes.weights, "relative") or _is(wishes.weights, "equal")):
            raise UsageError("weights must be 'relative' or 'equal' for Unknown rows: their spreads are learned.")

    def plan(
        self, n: int | None, d: int | None, columns: Any = None, gaps: tuple[bool, ...] | None = None
    ) -> Plan | LearningPlan | GroupPlan:
        """Every public number of the answer, for n rows (a guess where n is private) of d columns.

        gaps: for each column, whether an entry can be missing by its type; None where every one may.
        """
        if not isinstance(self.rows, Unknown) and self.grouping is None:
            return plan_statistic(self.terms(n, d, columns, gaps))
        size = self._size(n, d, columns)
        named = size[-2]
        if isinstance(self.rows, Unknown):
            from ..learning.plan import plan_learning

            words: dict[str, Any] = dict(zip(_LEARNED, (self.rows, *size), strict=True)) | {
                "method": self.method,
                "options": self.options,
                "handling": self.handling,
                "weights": self._learned_weights(named),
                "noise": self.noise,
                "later": self.later,
            }
            if self.grouping is None:
                return plan_learning(**words)
            from ..learning.grouped import plan_grouped

            return plan_grouped(self.grouping, self.groups, **words)
        from ..plans.group_planning import plan_groups

        assert self.grouping is not None
        grouping = replace(self.grouping, labels=())  # a plan holds no cells
        return plan_groups(grouping, self.groups, self.rows, *size, *self._words(named, gaps), self.noise)

    def terms(self, n: int | None, d: int | None, columns: Any = None, gaps: tuple[bool, ...] | None = None) -> Terms:
        """What a plan of one vector is made of, where its rows are stated."""
        size = self._size(n, d, columns)
        return Terms(self.rows, *size, *self._words(size[-2], gaps), self.noise, self.covariance)

    def _size(self, n: int | None, d: int | None, columns: Any) -> _Size:
        if n is None and self.neighbors == "replace":
            raise UsageError("n is missing. State the number of rows; it is public under neighbors='replace'.")
        count = None if n is None else whole("n", n)
        named = names("columns", columns) or self.rows.columns
        _same_names(self.rows, named)
        return self.statistic, count, _width(self.rows, d, named), self.budget, self.neighbors, named, self.people

    def _words(self, named: tuple[str, ...] | None, gaps: tuple[bool, ...] | None) -> tuple[Wishes, Handling]:
        """Wishes and handling, as the columns have them."""
        said, told = self.wishes, self.handling
        wishes = Wishes(said.shape, said.clip, said.clip_probability, self._weights(named), told.counts(self.rows))
        return wishes, Handling(told.missing, told.check, gaps, told.counts_left_out)

    def _weights(self, named: tuple[str, ...] | None) -> Any:
        """As stated; else relative where columns have names of their own, for they share no unit."""
        if self.wishes.weights is not None or not self._has_own_names(named):
            return self.wishes.weights
        return "relative" if self.rows.kind in ("box", "normal") and self.wishes.shape == "optimal" else None

    def _learned_weights(self, named: tuple[str, ...] | None) -> str:
        if self.wishes.weights is not None:
            return str(self.wishes.weights)
        return "relative" if self._has_own_names(named) else "equal"

    @staticmethod
    def _has_own_names(named: tuple[str, ...] | None) -> bool:
        """Not the entries of one list column: name[0], name[1], ..."""
        return named is not None and not all(name.endswith(f"[{j}]") for j, name in enumerate(named))


def _is(value: Any, word: str) -> bool:
    """Whether a value, of any type at all, is this word."""
    return isinstance(value, str) and value == word


def _same_names(rows: Rows, named: tuple[str, ...] | None) -> None:
    """Rows describe columns by their place, so names that both state must be the same, in the same places."""
    if rows.columns and named and rows.columns != named:
        how = "in another order" if sorted(rows.columns) == sorted(named) else "otherwise"
        raise UsageError(
            f"rows name the columns {listing(rows.columns)}, and columns names them {how}: {listing(named)}. "
            "Name the same ones in one order, or leave columns out."
        )


def _width(rows: Rows, d: int | None, named: tuple[str, ...] | None) -> int:
    found = {columns_of("d", d)} if d is not None else set()
    found |= {rows.d} if rows.d is not None else set()
    found |= {len(named)} if named is not None else set()
    if not found:
        raise UsageError("d is missing. State the number of columns, or give vectors or names in rows.")
    if len(found) > 1:
        raise UsageError(f"d, rows and columns disagree on the number of columns: {sorted(found)}.")
    return found.pop()


# The request behind a plan ------------------------------------------------------------------------------


def remade(plan: Plan | LearningPlan | GroupPlan, **changes: Any) -> Plan | LearningPlan | GroupPlan:
    """The plan of the same request with other words: budget, noise, shape, clip, weights or n."""
    request = request_of(plan)
    wishes = {name: changes.pop(name) for name in _WISHES if name in changes}
    n = changes.get("n", plan.n)
    return replace(request, wishes=replace(request.wishes, **wishes), **changes).plan(
        n, plan.d, plan.columns, gaps_of(plan)
    )


def request_of(plan: Plan | LearningPlan | GroupPlan) -> Request:
    """What was asked for, as far as a plan keeps it."""
    from ..learning.plan import LearningPlan
    from ..plans.group_plan import GroupPlan

    if not plan.stated:
        raise UsageError("this plan is one round of several, and cannot be made again by itself.")
    common = plan.statistic, plan.rows, Budget(**plan.stated), plan.neighbors, plan.n, plan.people
    if isinstance(plan, LearningPlan):
        learning = plan.method, plan.options, plan.handling, plan.noise, False
        return Request(*common, Wishes(weights=plan.weights), *learning, *_groups_of(plan), plan.later)
    options = plan.options
    wishes = Wishes(**{name: options[name] for name in _WISHES if name in options})
    handling = Handling(options.get("missing"), options["check"]) if "check" in options else Handling("center", False)
    more: dict[str, Any] = {"handling": handling, "noise": options.get("noise", "auto")}
    if isinstance(plan, GroupPlan):
        grouping, groups = _groups_of(plan)
        return Request(*common, wishes, **more, grouping=grouping, groups=groups)
    return Request(*common, wishes, **more, covariance=bool(plan.riders.products))


def _groups_of(plan: Any) -> tuple[Grouping | None, int | None]:
    from ..plans.group_plan import InGroups

    if not isinstance(plan, InGroups):
        return None, None
    return plan.grouping, plan.groups if plan.grouping.keys is None else None


def gaps_of(plan: Plan | LearningPlan | GroupPlan) -> tuple[bool, ...] | None:
    """For each column, whether an entry could be missing, as far as a plan tells."""
    from ..learning.plan import LearningPlan

    if isinstance(plan, LearningPlan):
        return None
    riders = plan.one.riders
    if riders.missing == "column":
        return tuple((riders.absences > 0).tolist())
    return (False,) * plan.d if riders.missing == "center" and not _is(plan.options.get("missing"), "center") else None


def _other_releases() -> None:
    """Releases of other plans than of one vector: their modules say how they are read."""
    from .. import friendly  # noqa: F401
    from ..plans import group_plan  # noqa: F401
    from ..releases import group_description  # noqa: F401


register_remaker(remade)
register_more(_other_releases)
