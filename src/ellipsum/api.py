"""The public functions. Each makes a request, opens the source, plans, and runs the plan in a session."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast

import numpy as np

from .errors import Floats, UsageError, refuse_unknown
from .plans.base import run_with_warnings
from .plans.noise_selection import plan_statistic
from .plans.plan import Plan
from .privacy.budget import Budget
from .releases.description import Description
from .releases.release import Release
from .request.bins import bins_of_columns
from .request.documentation import public
from .request.groups import parse_groups
from .request.missing import Missing
from .request.people import People, parse_people
from .request.quantiles import QUARTILES, Quantiles, quantiles_of_description
from .request.request import OwnArguments, Request, StatisticOptions, ones
from .request.target_error import check_error, find_fewest_rows, find_least_epsilon
from .rows import Rows, Unknown, parse_bounds
from .rows.base import ErrorWeights
from .session import Progress, Reading, Session, read_options
from .sources import Selection

if TYPE_CHECKING:  # Imported only when bounds are learned, rows have groups, or a ledger is charged.
    from .learning.plan import LearningPlan
    from .ledger import DatasetAccount
    from .plans.description_plan import DescriptionPlan
    from .plans.group_plan import GroupPlan
    from .plans.histogram_plan import HistogramPlan
    from .plans.quantile_plan import QuantilePlan
    from .releases.description_with_quantiles import DescriptionWithQuantiles
    from .releases.group_release import GroupDescription, GroupRelease
    from .releases.histogram_release import HistogramRelease
    from .releases.learned_bounds import Learned
    from .releases.quantile_release import QuantileRelease

AnyPlan: TypeAlias = "Plan | LearningPlan | GroupPlan | HistogramPlan | QuantilePlan | DescriptionPlan"
_WARN_AT = 5  # Stack frames between the user's line and the line that warns.


@public
def sum(
    data: Any,
    bounds: Rows | Mapping[str, Any],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    neighbors: str = "replace",
    n: int | None = None,
    columns: Sequence[str] | None = None,
    privacy_id: str | int | People | None = None,
    by: Any = None,
    missing: Missing = None,
    noise: str = "auto",
    error_weights: ErrorWeights = None,
    count_clipped: bool = True,
    ledger: DatasetAccount | None = None,
    request_id: str | None = None,
    rng: np.random.Generator | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Release | GroupRelease:
    """Release the differentially private sum of each column; with `by`, of each group.

    Returns
    -------
    Release or GroupRelease
        Sums with `standard_error`, `confidence_interval()` and `privacy`; a GroupRelease with `by`.

    See Also
    --------
    mean, count, plan

    Notes
    -----
    Privacy proof: [U1], in groups [G1]. The release satisfies ``release.privacy`` for the relation in `neighbors`.

    Examples
    --------
    >>> import numpy as np, ellipsum as es
    >>> hours = np.linspace(0, 60, 2000).reshape(1000, 2)
    >>> release = es.sum(hours, es.Box(0, 80), epsilon=1, delta=1e-6)
    >>> release.value.shape
    (2,)
    """
    request = Request(
        "sum",
        parse_bounds(bounds),
        Budget.of(epsilon, delta, budget),
        neighbors=neighbors,
        n=n,
        columns=columns,
        people=parse_people(privacy_id),
        groups=parse_groups(by),
        missing=missing,
        noise=noise,
        error_weights=error_weights,
        count_clipped=count_clipped,
    )
    released: Release | GroupRelease = _release(request, data, read_options(rng, threads, progress, ledger, request_id))
    return released


@public
def mean(
    data: Any,
    bounds: Rows | Mapping[str, Any],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    neighbors: str = "replace",
    n: int | None = None,
    columns: Sequence[str] | None = None,
    privacy_id: str | int | People | None = None,
    by: Any = None,
    missing: Missing = None,
    noise: str = "auto",
    error_weights: ErrorWeights = None,
    count_clipped: bool = True,
    ledger: DatasetAccount | None = None,
    request_id: str | None = None,
    rng: np.random.Generator | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Release | GroupRelease:
    """Release the differentially private mean of each column; with `by`, of each group.

    Returns
    -------
    Release or GroupRelease
        Means with `standard_error`, `confidence_interval()` and `privacy`; a GroupRelease with `by`.

    See Also
    --------
    describe : means with standard deviations, quantiles and intervals for a population.
    plan : the same release before any data.

    Notes
    -----
    Privacy proof: [U1], in groups [G1]. The release satisfies ``release.privacy`` for the relation in `neighbors`.

    Examples
    --------
    >>> import numpy as np, ellipsum as es
    >>> people = {"age": np.linspace(18, 90, 1000)}
    >>> release = es.mean(people, {"age": (0, 120)}, epsilon=1, delta=1e-6)
    >>> release.confidence_interval(0.95).shape
    (1, 2)
    """
    request = Request(
        "mean",
        parse_bounds(bounds),
        Budget.of(epsilon, delta, budget),
        neighbors=neighbors,
        n=n,
        columns=columns,
        people=parse_people(privacy_id),
        groups=parse_groups(by),
        missing=missing,
        noise=noise,
        error_weights=error_weights,
        count_clipped=count_clipped,
    )
    released: Release | GroupRelease = _release(request, data, read_options(rng, threads, progress, ledger, request_id))
    return released


@public
def describe(
    data: Any,
    bounds: Rows | Mapping[str, Any],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    neighbors: str = "replace",
    n: int | None = None,
    columns: Sequence[str] | None = None,
    privacy_id: str | int | People | None = None,
    by: Any = None,
    missing: Missing = None,
    noise: str = "auto",
    error_weights: ErrorWeights = None,
    count_clipped: bool = True,
    covariance: bool = False,
    quantiles: float | Sequence[float] | None = QUARTILES,
    ledger: DatasetAccount | None = None,
    request_id: str | None = None,
    rng: np.random.Generator | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Description | GroupDescription | DescriptionWithQuantiles:
    """Release count, mean, standard deviation and quantiles of each column; with `by`, of each group.

    Half of the budget is for the quantiles and half for the rest. Gaussian noise of each part is 1.41 times as large as
    if the part were released alone, with ``delta=0`` twice as large. ``quantiles=None`` leaves the quantiles out.

    Parameters
    ----------
    bounds : dict or Box
        Lower and upper bound of each column: public knowledge, never computed from the data. Values outside are
        clamped.

    Returns
    -------
    DescriptionWithQuantiles, Description or GroupDescription
        `count`, `mean`, `std` and `quantiles`, laid out by ``to_pandas()`` as pandas' ``describe`` lays them out.
        Without quantiles a Description, in groups a GroupDescription.

    Notes
    -----
    The standard deviation is the population's: squared distances from the mean are divided by the number of rows, not
    by one less. Squares cost no noise: without quantiles and under Gaussian noise, means are as exact as those of
    `ellipsum.mean` [S11]. ``confidence_interval(target="population")`` adds the sampling error of means and quantiles
    [D3][Q17]. Privacy proof: [U1][Q16], in groups [G1]. The release satisfies ``release.privacy``.

    Examples
    --------
    >>> import numpy as np, ellipsum as es
    >>> people = {"age": np.linspace(18, 90, 1000)}
    >>> release = es.describe(people, {"age": (0, 120)}, epsilon=1, delta=1e-6)
    >>> list(release.to_pandas().index)
    ['count', 'mean', 'std', '25%', '50%', '75%']
    """
    request = Request(
        "describe",
        parse_bounds(bounds),
        Budget.of(epsilon, delta, budget),
        neighbors=neighbors,
        n=n,
        columns=columns,
        people=parse_people(privacy_id),
        groups=parse_groups(by),
        missing=missing,
        noise=noise,
        error_weights=error_weights,
        count_clipped=count_clipped,
        covariance=covariance,
        quantiles=quantiles_of_description(quantiles),
    )
    released: Description | GroupDescription | DescriptionWithQuantiles = _release(
        request, data, read_options(rng, threads, progress, ledger, request_id)
    )
    return released


@public
def histogram(
    data: Any,
    *,
    bins: Any = None,
    categories: Any = None,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    neighbors: str = "replace",
    n: int | None = None,
    columns: Sequence[str] | None = None,
    privacy_id: str | int | People | None = None,
    by: Any = None,
    missing: Missing = None,
    noise: str = "auto",
    error_weights: ErrorWeights = None,
    count_clipped: bool = True,
    ledger: DatasetAccount | None = None,
    request_id: str | None = None,
    rng: np.random.Generator | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> HistogramRelease:
    """Release how many values lie in each bin, or are one of the listed categories; with `by`, for each group.

    Parameters
    ----------
    bins : dict of list of float, or list of float
        Increasing edges for each column: ``{"age": [0, 18, 65, 120]}``. As in `numpy.histogram` a bin holds its lower
        edge and not its upper edge; the last bin holds both. The outermost edges may be infinite. A list alone is for
        a single column. Edges must be public knowledge, never computed from the data.
    categories : dict of list, or list
        Categories of each column: ``{"city": ["Bern", "Ulm"]}``. A list alone is for the single column in `columns`.
        Categories must be public knowledge too.

    Returns
    -------
    HistogramRelease
        Noisy counts with `shares`, `confidence_interval()`, `consistent()` and `privacy`. Values in no bin, other
        categories and missing values are counted in `other`.

    Notes
    -----
    Each value is in one bin of its column, so the number of bins costs no accuracy. Privacy proof: [H3][H4]. The
    release satisfies ``release.privacy`` for the relation in `neighbors`.

    Examples
    --------
    >>> import numpy as np, ellipsum as es
    >>> people = {"age": np.linspace(18, 90, 1000)}
    >>> release = es.histogram(people, bins={"age": [0, 18, 65, 120]}, epsilon=1, delta=0)
    >>> release.value.shape
    (3,)
    """
    request = Request(
        "histogram",
        bins_of_columns(bins, categories, columns),
        Budget.of(epsilon, delta, budget),
        neighbors=neighbors,
        n=n,
        people=parse_people(privacy_id),
        groups=parse_groups(by),
        missing=missing,
        noise=noise,
        error_weights=error_weights,
        count_clipped=count_clipped,
    )
    released: HistogramRelease = _release(request, data, read_options(rng, threads, progress, ledger, request_id))
    return released


@public
def count(
    data: Any,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    neighbors: str = "replace",
    n: int | None = None,
    columns: Sequence[str] | None = None,
    privacy_id: str | int | People | None = None,
    by: Any = None,
    missing: Missing = None,
    noise: str = "auto",
    error_weights: ErrorWeights = None,
    count_clipped: bool = True,
    ledger: DatasetAccount | None = None,
    request_id: str | None = None,
    rng: np.random.Generator | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Release | GroupRelease:
    """Release the number of rows, or people; with `by`, of each group.

    Under "replace" the number of rows is public, so that without `by` there is nothing to release: an error says so.

    Returns
    -------
    Release or GroupRelease
        The noisy count with `confidence_interval()` and `privacy`; a GroupRelease with `by`.

    See Also
    --------
    histogram : counts of bins and of categories of several columns.

    Notes
    -----
    A count is a sum of ones: no value is read but those of `privacy_id` and `by`. Privacy proof: [H1]. The release
    satisfies ``release.privacy`` for the relation in `neighbors`.

    Examples
    --------
    >>> import numpy as np, ellipsum as es
    >>> people = {"city": ["Bern", "Ulm"] * 500, "age": np.full(1000, 40.0)}
    >>> release = es.count(people, by=es.Groups("city", keys=["Bern", "Ulm"]), epsilon=1, delta=0)
    >>> release.value.shape
    (2, 1)
    """
    request = Request(
        "count",
        ones(columns),
        Budget.of(epsilon, delta, budget),
        neighbors=neighbors,
        n=n,
        people=parse_people(privacy_id),
        groups=parse_groups(by),
        missing=missing,
        noise=noise,
        error_weights=error_weights,
        count_clipped=count_clipped,
    )
    released: Release | GroupRelease = _release(request, data, read_options(rng, threads, progress, ledger, request_id))
    return released


@public
def quantiles(
    data: Any,
    bounds: Rows | Mapping[str, Any],
    q: float | Sequence[float] = QUARTILES,
    *,
    bins: Any = None,
    method: str = "cdf",
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    neighbors: str = "replace",
    n: int | None = None,
    columns: Sequence[str] | None = None,
    privacy_id: str | int | People | None = None,
    by: Any = None,
    missing: Missing = None,
    noise: str = "auto",
    error_weights: ErrorWeights = None,
    count_clipped: bool = True,
    ledger: DatasetAccount | None = None,
    request_id: str | None = None,
    rng: np.random.Generator | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> QuantileRelease:
    """Release quantiles of each column; with `by`, of each group.

    The default releases the whole distribution function of each column. Any further quantile or share follows from it
    at no cost: `QuantileRelease.quantile`, `.cdf`, `.confidence_interval` and `.band`.

    Parameters
    ----------
    bounds : dict, Box or Unknown
        Lower and upper bound of each column, to which values are clamped; also those that `ellipsum.learn` found.
        ``Unknown(magnitude)`` uses bins that are evenly spaced on a logarithmic scale.
    bins : "integer", int, list of float or list of lists
        Public bins in which values are counted. None chooses them; "integer" is for columns of whole numbers; a
        number of bins; edges for all columns; or a list of edges for each column.
    method : {"cdf", "exponential"}, default 'cdf'
        "exponential" chooses a bin for each quantile. It is more accurate for a few quantiles of one or two columns,
        but releases points only, without intervals. Each plan prints the expected rank error of the other method.

    Returns
    -------
    QuantileRelease
        `value` (columns, quantiles) with `confidence_interval()` and `privacy`.

    Notes
    -----
    Privacy proof: [Q11], with ``method="exponential"`` [Q20]. The release satisfies ``release.privacy`` for the
    relation in `neighbors`.

    References
    ----------
    Matousek, Nikolov and Talwar 2020 (factorizations of cumulative sums); McSherry and Talwar 2007 (exponential
    mechanism).

    Examples
    --------
    >>> import numpy as np, ellipsum as es
    >>> people = {"age": np.linspace(18, 90, 1000)}
    >>> release = es.quantiles(people, {"age": (0, 120)}, [0.1, 0.5, 0.9], epsilon=1, delta=1e-6)
    >>> release.value.shape
    (1, 3)
    >>> bool(release.cdf(0)[0, 0] <= release.cdf(120)[0, 0])
    True
    """
    request = Request(
        "quantiles",
        parse_bounds(bounds),
        Budget.of(epsilon, delta, budget),
        neighbors=neighbors,
        n=n,
        columns=columns,
        people=parse_people(privacy_id),
        groups=parse_groups(by),
        missing=missing,
        noise=noise,
        error_weights=error_weights,
        count_clipped=count_clipped,
        quantiles=Quantiles.of(q, bins, method),
    )
    released: QuantileRelease = _release(request, data, read_options(rng, threads, progress, ledger, request_id))
    return released


@public
def learn(
    data: Any,
    bounds: Unknown,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    neighbors: str = "replace",
    n: int | None = None,
    columns: Sequence[str] | None = None,
    privacy_id: str | int | People | None = None,
    ledger: DatasetAccount | None = None,
    request_id: str | None = None,
    rng: np.random.Generator | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Learned:
    """Learn bounds of the values privately, for later releases with budgets of their own.

    Parameters
    ----------
    bounds : Unknown
        ``Unknown(magnitude)``: every value lies in [-magnitude, magnitude], and nothing else is known.

    Returns
    -------
    Learned
        `bounds` for later releases (a Box, or an ellipsoid that rows are clipped to), `privacy` and `steps`.

    Notes
    -----
    The whole budget is spent on the bounds. Data is read several times: a one-shot iterator is refused before
    anything is spent. Privacy proof: [L7][L8]. Everything in the result satisfies ``learned.privacy``.

    Examples
    --------
    >>> import numpy as np, ellipsum as es
    >>> people = {"income": np.exp(np.linspace(8, 12, 20_000))}
    >>> learned = es.learn(people, es.Unknown(1e9), epsilon=1, delta=1e-6)
    >>> learned.bounds.columns
    ('income',)
    """
    request = Request(
        "learn",
        parse_bounds(bounds),
        Budget.of(epsilon, delta, budget),
        neighbors=neighbors,
        n=n,
        columns=columns,
        people=parse_people(privacy_id),
    )
    learned: Learned = _release(request, data, read_options(rng, threads, progress, ledger, request_id))
    return learned


@public
def plan(
    statistic: str,
    bounds: Rows | Mapping[str, Any] | None = None,
    *,
    n: int | str | None = None,
    d: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    error: float | Sequence[float] | None = None,
    neighbors: str = "replace",
    columns: Sequence[str] | None = None,
    privacy_id: str | int | People | None = None,
    by: Any = None,
    missing: Missing = None,
    noise: str = "auto",
    error_weights: ErrorWeights = None,
    count_clipped: bool | None = True,
    covariance: bool = False,
    quantiles: float | Sequence[float] | None = QUARTILES,
    q: float | Sequence[float] = QUARTILES,
    bins: Any = None,
    categories: Any = None,
    method: str = "cdf",
) -> AnyPlan:
    """Plan a release without data: its noise, expected error and privacy guarantee.

    Parameters
    ----------
    statistic : {"sum", "mean", "describe", "quantiles", "histogram", "count", "learn"}
        What is to be released.
    bounds : dict, Box, Ball, Normal or Unknown, optional
        What is publicly known about the values. A histogram and a count have none.
    n : int or "auto"
        The number of rows: public under "replace", a guess under "add_remove". "auto" finds the smallest number of
        rows that meets `error` with this budget.
    d : int, optional
        Number of columns, where no names say it.
    error : float, dict or list of float, optional
        Replaces `epsilon`: a root mean square error of all columns together, or one per column. The plan has the
        smallest epsilon that meets it. For a description it is the error of the means, for quantiles that of their
        ranks.
    bins : dict, list, int or "integer", optional
        Of quantiles or a histogram, as in `ellipsum.quantiles` and `ellipsum.histogram`.
    categories : dict or list, optional
        Of a histogram.
    method : {"cdf", "exponential"}, default 'cdf'
        Of quantiles.

    Returns
    -------
    Plan, GroupPlan, DescriptionPlan, QuantilePlan, HistogramPlan or LearningPlan
        Every public number of the release. ``plan.release(data)`` runs it; for Unknown bounds it is a schedule of
        steps.

    Raises
    ------
    UsageError
        If an argument is missing or invalid, or no budget or number of rows meets `error`.

    Examples
    --------
    >>> import ellipsum as es
    >>> plan = es.plan("mean", {"age": (0, 120)}, n=10_000, epsilon=1, delta=1e-6)
    >>> plan.expected_error.round(3)
    array([0.021])
    >>> es.plan("mean", {"age": (0, 120)}, n=10_000, error=0.1, delta=1e-6).request.budget
    Budget(epsilon=0.21162, delta=1e-06)
    """
    options = StatisticOptions(covariance, quantiles, q, bins, categories, method)
    request = Request(
        statistic,
        options.bounds(statistic, bounds, columns),
        None,
        neighbors=neighbors,
        columns=columns,
        people=parse_people(privacy_id),
        groups=parse_groups(by),
        missing=missing,
        noise=noise,
        error_weights=error_weights,
        count_clipped=count_clipped,
        covariance=covariance,
        quantiles=options.parse_quantiles(statistic),
    )
    return plan_request(request, n, d, epsilon=epsilon, delta=delta, budget=budget, error=error)


def plan_request(
    request: Request,
    n: int | str | None,
    d: int | None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    error: float | Sequence[float] | Mapping[str, float] | None = None,
) -> AnyPlan:
    """Plan a request at this budget, or at the smallest budget or number of rows that meets an error."""

    def make(n: Any, budget: Budget) -> AnyPlan:
        return make_plan(replace(request, budget=budget).sized(n, d, request.columns))

    if error is None:
        if isinstance(n, str):
            raise UsageError("n='auto' needs error=, the root mean square error that is to be met.")
        return make(n, Budget.of(epsilon, delta, budget))
    target = check_error(error, d, request.bounds.columns if request.columns is None else request.columns)
    if n == "auto":
        spend = Budget.of(epsilon, delta, budget)
        fewest: AnyPlan = find_fewest_rows(lambda rows: make(rows, spend), lambda plan: _excess(plan, target))
        return fewest
    if epsilon is not None or budget is not None:
        raise UsageError("error= replaces epsilon=. Pass delta= beside it, or n='auto' with a budget.")
    if delta is None:
        raise UsageError("delta is missing. Pass delta= beside error=; 0 asks for pure differential privacy.")
    least: AnyPlan = find_least_epsilon(
        lambda epsilon: make(n, Budget(epsilon=epsilon, delta=delta)), lambda plan: _excess(plan, target)
    )
    return least


def _excess(plan: AnyPlan, target: Floats) -> float:
    """The expected error divided by the target: of all columns together, or the largest ratio of a column."""
    if plan.request.learns:  # The error is relative to the standard deviation of the rows.
        relative = plan.budget_error[0]
        if target.ndim or relative is None:
            raise UsageError(
                "For Unknown bounds, error must be one number in standard deviations of the data, and n is needed."
            )
        return float(relative / target)
    vector_plan = cast("Plan", plan)  # Every other plan has these numbers.
    errors, squared = vector_plan.expected_error, vector_plan.expected_squared_error
    if squared is None or errors is None:
        raise UsageError("n is missing: the error of a mean depends on it. Pass n= as well.")
    if target.ndim == 0:
        return math.sqrt(squared) / float(target)
    if errors.size != target.size:
        raise UsageError(f"error must be one number, or {errors.size}, one per column.")
    return float((errors / target).max())


def make_plan(request: Request) -> AnyPlan:
    """The plan of a sized request: every public number of its release."""
    if request.statistic == "quantiles":
        from .plans.quantile_plan import plan_quantiles

        return plan_quantiles(request)
    if request.learns:
        from .learning.plan import LearningPlan

        return LearningPlan(request)
    if request.statistic == "histogram":
        from .plans.histogram_plan import plan_histogram

        return plan_histogram(request)
    if request.statistic == "describe" and request.quantiles is not None:
        from .plans.description_plan import plan_description

        return plan_description(request)
    if request.groups is not None:
        from .plans.group_plan import plan_groups

        return plan_groups(request)
    return plan_statistic(request)


@public
def replan(plan: AnyPlan, **changes: Any) -> AnyPlan:
    """Plan the same request with changes.

    Parameters
    ----------
    plan : Plan
        A plan of any kind.
    changes : keyword arguments
        Arguments of `ellipsum.plan` with new values. ``epsilon=`` alone keeps the plan's delta.

    Returns
    -------
    Plan
        The plan of the changed request.

    Raises
    ------
    UsageError
        If a change is not an argument of the plan, or is invalid.

    Examples
    --------
    >>> import ellipsum as es
    >>> plan = es.plan("mean", {"age": (0, 120)}, n=10_000, epsilon=1, delta=1e-6)
    >>> es.replan(plan, n=20_000).n
    20000
    """
    request = getattr(plan, "request", None)
    if not isinstance(request, Request):
        raise UsageError(f"plan must be a plan, got {type(plan).__name__}.")
    if request.budget is None:
        raise UsageError("This plan is one part of a larger release. Change the plan of that release.")
    changed = replace(request, **_parse_changes(request, changes))
    if changed.budget is None:
        raise UsageError("budget must be a Budget, got None.")
    return make_plan(changed.sized(changed.n, request.d, changed.columns, changed.nullable))


def _parse_changes(request: Request, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a caller's arguments into the fields of a request that change."""
    fields = set(vars(request)) - {"statistic", "d", "nullable", "people", "groups"}
    accepted = ["epsilon", "delta", "privacy_id", "by", *sorted(fields)]
    refuse_unknown("replan", changes, accepted)
    changed = {name: value for name, value in changes.items() if name in fields}
    if "privacy_id" in changes:
        changed["people"] = parse_people(changes["privacy_id"])
    if "by" in changes:
        changed["groups"] = parse_groups(changes["by"])
    if "epsilon" in changes or "delta" in changes:
        loss = {name: changes.get(name, request.stated.get(name)) for name in ("epsilon", "delta")}
        changed["budget"] = Budget.of(loss["epsilon"], loss["delta"], changes.get("budget"))
    return changed


class PreparedRelease:
    """A request on opened data. Its plan can be seen before any budget is spent and any value is read."""

    def __init__(self, request: Request, session: Session) -> None:
        self.request, self.session = request, session
        self.plan: AnyPlan = _plan_for(request, session)

    def release(self) -> Any:
        """Run the plan, and return what the call of this statistic returns."""
        return run_with_warnings(self.plan, self.session, 3, warns_of_plan=False)


@public
@contextmanager
def prepare(
    statistic: str,
    data: Any,
    bounds: Rows | Mapping[str, Any] | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    neighbors: str = "replace",
    n: int | None = None,
    columns: Sequence[str] | None = None,
    privacy_id: str | int | People | None = None,
    by: Any = None,
    missing: Missing = None,
    noise: str = "auto",
    error_weights: ErrorWeights = None,
    count_clipped: bool = True,
    ledger: DatasetAccount | None = None,
    request_id: str | None = None,
    rng: np.random.Generator | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **own: Unpack[OwnArguments],
) -> Iterator[PreparedRelease]:
    """Open data and plan its release, to look at the plan before anything is spent.

    Nothing is spent, and no value is read, before ``prepared.release()``. With `privacy_id` the rows of people are
    grouped first.

    Parameters
    ----------
    statistic : {"sum", "mean", "describe", "quantiles", "histogram", "count", "learn"}
        What is to be released.
    bounds : dict, Box, Ball, Normal or Unknown, optional
        What is publicly known about the values. A histogram and a count have none.
    own : keyword arguments
        Arguments that only this statistic has: `covariance` and `quantiles` of describe; `q`, `bins` and `method` of
        quantiles; `bins` and `categories` of histogram.

    Returns
    -------
    PreparedRelease
        In a ``with`` statement: `plan`, and ``release()``, which runs it.

    Examples
    --------
    >>> import numpy as np, ellipsum as es
    >>> people = {"age": np.linspace(18, 90, 1000)}
    >>> with es.prepare("mean", people, {"age": (0, 120)}, epsilon=1, delta=1e-6) as prepared:
    ...     if prepared.plan.expected_error[0] < 1:
    ...         release = prepared.release()
    >>> release.columns
    ('age',)
    """
    options = StatisticOptions(**own)
    request = Request(
        statistic,
        options.bounds(statistic, bounds, columns),
        Budget.of(epsilon, delta, budget),
        neighbors=neighbors,
        n=n,
        columns=columns,
        people=parse_people(privacy_id),
        groups=parse_groups(by),
        missing=missing,
        noise=noise,
        error_weights=error_weights,
        count_clipped=count_clipped,
        covariance=options.covariance,
        quantiles=options.parse_quantiles(statistic),
    )
    with prepare_request(request, data, read_options(rng, threads, progress, ledger, request_id)) as prepared:
        yield prepared


@contextmanager
def prepare_request(request: Request, data: Any, reading: Reading) -> Iterator[PreparedRelease]:
    """Open the data of a request and plan it; the data is closed at the end."""
    selection = Selection.of_request(request, request.columns)
    with Session.open(data, selection, request.people, reading, request.groups) as session:
        yield PreparedRelease(request, session)


def _release(request: Request, data: Any, reading: Reading) -> Any:
    with prepare_request(request, data, reading) as prepared:
        return run_with_warnings(prepared.plan, prepared.session, _WARN_AT)


def _plan_for(request: Request, session: Session) -> AnyPlan:
    """The plan for the rows of a session. A source that can be read only once is refused where bounds are unknown."""
    if request.learns and not session.rereadable:
        raise UsageError(
            "Unknown bounds are learned in several passes, and this source can be read only once. "
            "Pass an array, a table, a file or a list of batches."
        )
    source = session.source
    n = session.public_count(request.neighbors, request.n)
    return make_plan(request.sized(n, source.width, source.columns, source.nullable))
