"""The public calls: words -> request -> source -> plan -> session -> release."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .errors import UsageError
from .plans.base import run_and_tell
from .plans.noise_selection import plan_statistic
from .plans.plan import Plan
from .privacy.budget import Budget
from .releases.description import Description
from .releases.release import Release
from .request.documentation import public
from .request.groups import Groups
from .request.people import WAYS, people_of
from .request.request import Request
from .request.target_error import checked_error, least_epsilon, least_rows
from .rows import Rows, Unknown, parse_bounds
from .session import Approve, Progress, Reading, Session, tab_of
from .sources import EVERYTHING, Selection

if TYPE_CHECKING:  # imported when rows are learned or have groups
    from .learning.plan import LearningPlan
    from .learning.result import Learned
    from .plans.group_plan import GroupPlan
    from .releases.group_release import GroupDescription, GroupRelease

AnyPlan: TypeAlias = "Plan | LearningPlan | GroupPlan"
_METHODS_OWN = ("steps", "std", "clip_share")


@public
def sum(
    data: Any,
    rows: Rows,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    neighbors: str = "replace",
    n: int | None = None,
    columns: list[str] | tuple[str, ...] | None = None,
    header: bool | None = None,
    privacy_id: str | int | None = None,
    per_person: str | None = None,
    max_rows: int | None = None,
    by: Any = None,
    keys: Any = None,
    max_groups: int = 1,
    shape: str = "optimal",
    clip: str | float = "optimal",
    clip_probability: float | None = None,
    weights: Any = None,
    noise: str = "auto",
    missing: Any = None,
    check: bool = True,
    method: str = "auto",
    steps: int | None = None,
    std: Any = None,
    clip_share: float | None = None,
    rng: np.random.Generator | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    approve: Approve | None = None,
    ledger: Any = None,
    dataset: str | None = None,
    key: str | None = None,
    analyst: str | None = None,
) -> Release | GroupRelease:
    """Publish the sum of the rows; with `by`, of the rows of each group.

    Guarantee: [U1], `Release.privacy`, for the relation in `neighbors`.
    """
    released: Release | GroupRelease = _released("sum", locals())
    return released


@public
def mean(
    data: Any,
    rows: Rows,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    neighbors: str = "replace",
    n: int | None = None,
    columns: list[str] | tuple[str, ...] | None = None,
    header: bool | None = None,
    privacy_id: str | int | None = None,
    per_person: str | None = None,
    max_rows: int | None = None,
    by: Any = None,
    keys: Any = None,
    max_groups: int = 1,
    shape: str = "optimal",
    clip: str | float = "optimal",
    clip_probability: float | None = None,
    weights: Any = None,
    noise: str = "auto",
    missing: Any = None,
    check: bool = True,
    method: str = "auto",
    steps: int | None = None,
    std: Any = None,
    clip_share: float | None = None,
    rng: np.random.Generator | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    approve: Approve | None = None,
    ledger: Any = None,
    dataset: str | None = None,
    key: str | None = None,
    analyst: str | None = None,
) -> Release | GroupRelease:
    """Publish the mean of the rows; with `by`, of the rows of each group.

    Guarantee: [U1], `Release.privacy`, for the relation in `neighbors`.
    """
    released: Release | GroupRelease = _released("mean", locals())
    return released


@public
def describe(
    data: Any,
    rows: Rows,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    neighbors: str = "replace",
    n: int | None = None,
    columns: list[str] | tuple[str, ...] | None = None,
    header: bool | None = None,
    privacy_id: str | int | None = None,
    per_person: str | None = None,
    max_rows: int | None = None,
    by: Any = None,
    keys: Any = None,
    max_groups: int = 1,
    shape: str = "optimal",
    weights: Any = None,
    noise: str = "auto",
    missing: Any = None,
    check: bool = True,
    covariance: bool = False,
    rng: np.random.Generator | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    approve: Approve | None = None,
    ledger: Any = None,
    dataset: str | None = None,
    key: str | None = None,
    analyst: str | None = None,
) -> Description | GroupDescription:
    """Publish count, mean and standard deviation of every column in one release; with `by`, those of each group.

    The standard deviation is the population's: squared distances from the mean are divided by the number of rows, not
    by one less. Squares cost no noise: under Gaussian noise the means are as exact as those of `ellipsum.mean` [S11].
    Guarantee: [U1], `Release.privacy`, for the relation in `neighbors`.

    rows: Box, since each entry must be clamped to bounds of its own.
    """
    made: Description | GroupDescription = _released("describe", locals())
    return made


@public
def learn(
    data: Any,
    rows: Unknown,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    neighbors: str = "replace",
    n: int | None = None,
    columns: list[str] | tuple[str, ...] | None = None,
    header: bool | None = None,
    privacy_id: str | int | None = None,
    per_person: str | None = None,
    max_rows: int | None = None,
    method: str = "auto",
    steps: int | None = None,
    std: Any = None,
    clip_share: float | None = None,
    rng: np.random.Generator | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    approve: Approve | None = None,
    ledger: Any = None,
    dataset: str | None = None,
    key: str | None = None,
    analyst: str | None = None,
) -> Learned:
    """Learn bounds of the rows, spending the whole stated budget.

    `Learned.bounds` are for later releases with a budget of their own: a `Box` with the ends of each column, or the
    ellipsoid that vectors are clipped to. Data is read several times: a one-shot source is refused before anything is
    spent.

    Guarantee [L7][L8]: everything in the result is `Learned.privacy`, for the relation in `neighbors`.
    """
    words = locals()
    request = _request("learn", words)
    with _session(request, words) as session:
        plan: Any = _plan_for(request, session)
        from .learning.result import Learned

        learned: Learned = session.kept(lambda: plan.learn(session), Learned.from_json)
        return learned


@public
def plan(
    rows: Rows,
    *,
    n: int | str | None = None,
    d: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    statistic: str = "sum",
    neighbors: str = "replace",
    columns: list[str] | tuple[str, ...] | None = None,
    privacy_id: str | int | None = None,
    per_person: str | None = None,
    max_rows: int | None = None,
    by: Any = None,
    keys: Any = None,
    max_groups: int = 1,
    shape: str = "optimal",
    clip: str | float = "optimal",
    clip_probability: float | None = None,
    weights: Any = None,
    noise: str = "auto",
    missing: Any = None,
    check: bool | None = None,
    method: str = "auto",
    steps: int | None = None,
    std: Any = None,
    clip_share: float | None = None,
    groups: int | None = None,
    error: Any = None,
    covariance: bool = False,
) -> AnyPlan:
    """Every public number of one release of `statistic`, made without data.

    For Unknown rows the result is a schedule of rounds with its forecast, and `method` names how they are learned.

    n: the public number of rows under "replace", your guess under "add_remove"; "auto" with a budget and an error finds
        the fewest rows that meet it.
    error: in place of epsilon, a target root mean square error of all columns together, or one per column: the plan
        has the least epsilon that meets it (for Unknown rows it is relative to the rows' own spread).
    d: the number of columns, where no names say it.
    check: count what is clipped (None: where that costs no noise, so not beside the stated bounds of Box and Ball).
    groups: with by: how many groups are expected, where keys does not list them; with n it says how large one is.
    statistic: "sum", "mean" or "describe" (count, mean and std of every column; error= then speaks of the means).
    """
    words = locals()
    if error is None:
        if isinstance(n, str):
            raise UsageError("n='auto' needs error=, the root mean square error that is to be met.")
        return make_plan(_request(statistic, words).sized(n, d, columns))
    return _targeted(statistic, words)


def _targeted(statistic: str, words: dict[str, Any]) -> AnyPlan:
    """The plan that meets a target error with the least epsilon, or with the fewest rows."""
    target = checked_error(words["error"], words["d"])

    def make(n: Any, **budget: Any) -> AnyPlan:
        return make_plan(_request(statistic, {**words, "n": n, **budget}).sized(n, words["d"], words["columns"]))

    if words["n"] == "auto":
        fewest: AnyPlan = least_rows(make, target)
        return fewest
    if words["epsilon"] is not None or words["budget"] is not None:
        raise UsageError("error= stands in place of epsilon. State delta= beside it, or n='auto' with a budget.")
    if words["delta"] is None:
        raise UsageError("delta is missing. State delta= beside error=; 0 asks for a pure guarantee.")
    least: AnyPlan = least_epsilon(lambda epsilon: make(words["n"], epsilon=epsilon), target)
    return least


def make_plan(request: Request) -> AnyPlan:
    """Every public number of what a sized request asks for."""
    if request.learns and request.groups is not None:
        from .learning.grouped import plan_grouped

        return plan_grouped(request)
    if request.learns:
        from .learning.plan import plan_learning

        return plan_learning(request)
    if request.groups is not None:
        from .plans.group_planning import plan_groups

        return plan_groups(request)
    return plan_statistic(request)


def replan(plan: AnyPlan, **changes: Any) -> AnyPlan:
    """The plan of the same request, changed: `es.replan(plan, budget=es.Budget(epsilon=2, delta=1e-6))`."""
    request = getattr(plan, "request", None)
    if not isinstance(request, Request):
        raise UsageError(f"plan must be a plan, got {type(plan).__name__}.")
    if request.budget is None:
        raise UsageError("this plan is one part of a larger release. Change the plan of that release.")
    known = sorted(set(vars(request)) - {"d", "nullable"})
    if not set(changes) <= set(known):
        raise UsageError(f"A plan can be changed in {', '.join(known)}.")
    changed = replace(request, **changes)
    if changed.budget is None:
        raise UsageError("budget must be a Budget, got None.")
    return make_plan(changed.sized(changed.n, request.d, changed.columns, changed.nullable))


def _request(statistic: str, words: Mapping[str, Any]) -> Request:
    """The words of a call, checked before any data is opened."""
    bounds: Any = parse_bounds(words["rows"])
    shape = {name: words[name] for name in ("shape", "clip", "clip_probability") if not _usual(words.get(name))}
    method = {name: words[name] for name in ("method", *_METHODS_OWN) if not _usual(words.get(name))}
    if shape and bounds.kind not in ("box", "normal"):
        raise UsageError(f"{', '.join(shape)} cannot be chosen for {type(bounds).__name__}.")
    if shape:
        own = {name: value for name, value in vars(bounds).items() if not name.startswith("_") and name not in shape}
        try:
            bounds = type(bounds)(**own, **shape)
        except TypeError:
            raise UsageError("clip and clip_probability are for Normal rows. Leave them out.") from None
    if method and not isinstance(bounds, Unknown):
        raise UsageError(f"{', '.join(method)} is for Unknown rows. Leave it out.")
    if method:
        bounds = Unknown(bounds.magnitude, bounds.columns, **method)
    by = words.get("by")
    return Request(
        statistic=statistic,
        bounds=bounds,
        budget=Budget.of(words["epsilon"], words["delta"], words["budget"]).as_typed(),
        neighbors=words["neighbors"],
        n=words["n"],
        columns=words["columns"],
        people=people_of(words["privacy_id"], words["per_person"], words["max_rows"], ways=WAYS),
        groups=_groups(by, words),
        missing=words.get("missing"),
        noise=words.get("noise", "auto"),
        error_weights=words.get("weights"),
        count_clipped=words.get("check", True),
        covariance=words.get("covariance", False),
    )


def _groups(by: Any, words: Mapping[str, Any]) -> Groups | None:
    keys, most, expected = words.get("keys"), words.get("max_groups", 1), words.get("groups")
    if by is None or isinstance(by, Groups):
        if keys is not None or most not in (None, 1) or expected is not None:
            raise UsageError("keys, max_groups and groups need by, the columns that name a row's group.")
        return by
    return Groups(by, keys, 1 if most is None else most, expected)


def _usual(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value in ("optimal", "auto"))


def _session(request: Request, words: Mapping[str, Any]) -> AbstractContextManager[Session]:
    columns, header, names = words["columns"], words["header"], request.bounds.columns
    everything = columns is None and header is None and names is None
    selection = EVERYTHING if everything else Selection(columns, header=header, names=names)
    tab = tab_of(words["ledger"], words["dataset"], words["key"], words["analyst"])
    rng, threads, progress, approve = words["rng"], words["threads"], words["progress"], words["approve"]
    reading = Reading(rng, threads, progress, approve, tab)
    return Session.open(words["data"], selection, request.people, reading, request.groups)


def _plan_for(request: Request, session: Session) -> AnyPlan:
    """The plan for the rows of a session: counted under "replace", and refused where they cannot be read again."""
    if request.learns and not session.rereadable:
        raise UsageError(
            "Unknown rows are read several times, and this source serves a single pass. "
            "Pass an array, a table, a file or a list of batches."
        )
    source = session.source
    n = session.public_count(request.neighbors, request.n)
    return make_plan(request.sized(n, source.width, source.columns, source.gaps))


def _released(statistic: str, words: Mapping[str, Any]) -> Any:
    request = _request(statistic, words)
    with _session(request, words) as session:
        return run_and_tell(_plan_for(request, session), session, 5)
