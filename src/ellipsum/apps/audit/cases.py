"""The mechanisms of the library, each with two neighboring data sets that show most of its privacy loss."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence, Sized
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import (
    AccuracyWarning,
    Ball,
    Box,
    Budget,
    DescriptionPlan,
    DescriptionWithQuantiles,
    GroupPlan,
    GroupRelease,
    Groups,
    HistogramPlan,
    NoCenter,
    Normal,
    People,
    Plan,
    Projection,
    ProjectionWarning,
    QuantilePlan,
    Release,
    Unknown,
    UsageError,
    friendly_mean,
    plan,
    project,
    subsample_and_aggregate,
)
from ...api import AnyPlan, make_plan
from ...errors import Floats, listing
from ...friendly.calls import deal
from ...friendly.plan import friendly_plan
from ...friendly.release import FriendlyRelease, run_friendly
from ...learning.plan import LearningPlan
from ...ledger.ledger import uncharged
from ...numerics.wide_integers import Wide
from ...plans.base import StatisticPlan
from ...releases.base import StatisticRelease
from ...request.quantiles import Quantiles
from ...request.request import Request
from ...rows import Rows
from ...session import Reading, Session
from ...sources import Selection
from .bounds import Claim
from .runs import Mechanism, Pair


@dataclass(frozen=True)
class Whole:
    """A plan's release on data, from the first row to the published numbers.

    groups: the largest number of groups; a group that is not published is all zeros.
    """

    plan: StatisticPlan[Any]
    groups: int = 0

    def __call__(self, data: object, rng: np.random.Generator) -> Floats:
        with warnings.catch_warnings(), uncharged():
            warnings.simplefilter("ignore", AccuracyWarning)
            return self.noisy_numbers(self.plan.release(data, rng, threads=1))

    def noisy_numbers(self, release: StatisticRelease) -> Floats:
        """Every noisy number of a release."""
        if isinstance(release, GroupRelease):
            noisy = np.zeros((self.groups, release.plan.width))
            noisy[: len(release.noisy)] = release.noisy
            return noisy.reshape(-1)
        if isinstance(release, DescriptionWithQuantiles):
            return np.concatenate([release.noisy, release.quantile_sums[0]])
        if isinstance(release, Release):
            return release.raw_value if release.row_count is None else np.append(release.raw_value, release.row_count)
        first: Floats = release.noisy[0]
        return first


@dataclass(frozen=True)
class WholePeople(Whole):
    """The same for people. Their rows are grouped once, and read in each run."""

    def many(self, data: object, runs: int, rng: np.random.Generator) -> Floats:
        with _open_session(self.plan, data, rng) as session:
            return np.stack([self.noisy_numbers(self.plan.run(session)) for _ in range(runs)])


def _open_session(plan: StatisticPlan[Any], data: object, rng: np.random.Generator) -> AbstractContextManager[Session]:
    selection = Selection.of_request(plan.request)
    return Session.open(data, selection, plan.people, Reading(rng, threads=1), plan.grouping)


@dataclass(frozen=True)
class NoisySums:
    """The noisy sums of a plan's release: rows are added up once, and each run draws new noise [A4]."""

    plan: Plan | HistogramPlan | QuantilePlan

    def many(self, data: object, runs: int, rng: np.random.Generator) -> Floats:
        plan = self.plan
        with _open_session(plan, data, rng) as session:
            stream = session.spend(plan.privacy, plan.statistic)
            partial = session.total(plan.row_map, public=isinstance(plan, Plan) and plan.public_rows)
        sums = partial.sums
        if isinstance(plan, Plan) and plan.count_units:  # as in `Plan.noisy_sums`, the weighted count comes last
            sums = sums.join(Wide.from_ints([partial.rows * plan.count_units]))
        copies = Wide(*(np.tile(limbs, (runs, 1)) for limbs in (sums.high, sums.low)))
        return plan.noise_law.add(copies, [], stream) if isinstance(plan, Plan) else plan.noisy(copies, stream)


@dataclass(frozen=True)
class NoisyDescription:
    """The noisy sums of both parts of a description with quantiles [A4]."""

    plan: DescriptionPlan

    def many(self, data: object, runs: int, rng: np.random.Generator) -> Floats:
        moments = self.plan.moments
        assert isinstance(moments, Plan)
        parts = NoisySums(moments), NoisySums(self.plan.quantile_plan)
        return np.concatenate([part.many(data, runs, rng) for part in parts], axis=1)


@dataclass(frozen=True)
class NoisyGroups:
    """The noisy sums of at most this number of groups; a group that is not published is all zeros [A4]."""

    plan: GroupPlan
    groups: int

    def many(self, data: object, runs: int, rng: np.random.Generator) -> Floats:
        plan, keys = self.plan, self.plan.grouping.keys
        with _open_session(plan, data, rng) as session:
            stream = session.spend(plan.privacy, plan.statistic)
            sums = session.total_by(plan.one.row_map, keys, public=False)
        present = np.flatnonzero(sums.rows > 0) if keys is None else np.arange(sums.rows.size)
        noisy = plan.noisy(sums.chosen(np.tile(present, runs)), stream).reshape(runs, present.size, plan.width)
        if keys is None:
            noisy = np.where(plan.reaches(noisy)[..., None], noisy, 0.0)
        out = np.zeros((runs, self.groups, plan.width))
        out[:, : present.size] = noisy
        return out.reshape(runs, -1)


def friendly_numbers(release: FriendlyRelease | NoCenter) -> Floats:
    """The published numbers of a friendly mean: the core fraction, whether there is a center, and the center."""
    if isinstance(release, NoCenter):
        return np.concatenate([[release.core_fraction, 0.0], np.zeros(release.plan.d)])
    return np.concatenate([[release.core_fraction, 1.0], release.value])


def along(projection: Projection, row: int, shift: Floats) -> Floats:
    """The position of a projected row in the direction of its change, under the published matrix."""
    mapped = shift @ projection.matrix
    return np.array([projection.value[row] @ mapped / float(np.linalg.norm(mapped))])


_ONE: dict[str, Any] = {"budget": Budget(mu=1.0)}
_PURE: dict[str, Any] = {"budget": Budget(epsilon=1.0, delta=0)}
_LOOSE: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-3}
_BATCHED = 1_000_000
_BOX = Box([0.0, -1.0], [1.0, 2.0])
_FAR = 10.0


@dataclass(frozen=True)
class Case:
    """A mechanism, two neighboring data sets and what is claimed."""

    mechanism: Mechanism
    pair: Pair
    claim: Claim
    runs: int
    """The usual number of runs of an audit."""
    whole: Mechanism | None = None
    """The same release from the first row on, where `mechanism` draws noise in batches."""


def _case_of(audited_plan: AnyPlan, pair: Pair, runs: int = _BATCHED, groups: int = 0) -> Case:
    """The case of a plan: its noise in batches, and its whole release."""
    whole = Whole(audited_plan, groups) if audited_plan.people is None else WholePeople(audited_plan, groups)
    if isinstance(audited_plan, LearningPlan):
        return Case(whole, pair, audited_plan.privacy, runs)
    if isinstance(audited_plan, GroupPlan):
        return Case(NoisyGroups(audited_plan, groups), pair, audited_plan.privacy, runs, whole)
    batched = NoisyDescription(audited_plan) if isinstance(audited_plan, DescriptionPlan) else NoisySums(audited_plan)
    return Case(batched, pair, audited_plan.privacy, runs, whole)


def _replace_last_row(one: Sequence[float], other: Sequence[float], n: int = 5) -> tuple[Floats, Floats]:
    """n rows of zeros, except that the last row is one row or the other."""
    rows = np.zeros((n - 1, len(one)))
    return np.vstack([rows, one]), np.vstack([rows, other])


def _add_row(row: Sequence[float], n: int = 5) -> tuple[Floats, Floats]:
    """n rows of zeros, and the same with one more row."""
    rows = np.zeros((n, len(row)))
    return rows, np.vstack([rows, row])


def _case(
    statistic: str, bounds: Rows | None, pair: Pair, *, runs: int = _BATCHED, groups: int = 0, **arguments: Any
) -> Case:
    """The case of a plan with these arguments, for five rows by default."""
    return _case_of(plan(statistic, bounds, **{"n": 5, **arguments}), pair, runs, groups)


def _vectors(bounds: Rows, pair: Pair, statistic: str = "sum", d: int = 2, **arguments: Any) -> Case:
    return _case(statistic, bounds, pair, d=d, **{"count_clipped": False, **arguments})


def _people(people: People, statistic: str) -> Case:
    """Five people with two visits each; the visits of the last person are all at one bound or all at the other."""
    names, ends = np.repeat(np.arange(5), 2), np.concatenate([np.zeros(8), [1.0, 1.0]])
    pair = {"name": names, "x": ends}, {"name": names, "x": -ends}
    return _vectors(Box([-1.0], [1.0]), pair, statistic, 1, privacy_id=people, noise="gaussian", **_ONE)


def _cities(last: float, name: str = "b") -> dict[str, Any]:
    """Rows of one city, and one more row."""
    return {"city": ["a"] * 4 + [name], "x": np.array([0.0] * 4 + [last])}


_ALONE: Any = tuple({"city": np.array(["b"] * rows, dtype=str), "x": np.zeros(rows)} for rows in (0, 1))


def _groups(keys: list[str] | None, pair: Pair, **arguments: Any) -> Case:
    bounds, by = Box({"x": (-1.0, 1.0)}), Groups("city", keys)
    return _case("sum", bounds, pair, groups=len(keys or "b"), by=by, noise="gaussian", **arguments)


def _quantiles(pair: tuple[Sized, Sized], runs: int = _BATCHED, **arguments: Any) -> Case:
    n = len(pair[0])
    return _case("quantiles", Box(0.0, 8.0), pair, runs=runs, n=n, d=1, **{"bins": 8, **_PURE, **arguments})


def _describe_case(pair: Pair, **fields: Any) -> Case:
    request = Request("describe", _BOX, n=5, count_clipped=False, quantiles=Quantiles(bins=8), **fields)
    return _case_of(make_plan(request.sized(5, 2)), pair)


def _choices(q: float, before: list[int], after: list[int], **fields: Any) -> Case:
    """Rows in three bins. The middle bin is narrow, so that a neighboring bin is chosen nearly always."""
    pair: Any = tuple(np.repeat([0.5, 1.0005, 4.0], rows)[:, None] for rows in (before, after))
    return _quantiles(pair, 100_000, q=q, bins=[1.0, 1.001], method="exponential", **fields)


def _learning(method: str, runs: int, n: int = 100, noise: str = "auto", **options: Any) -> Case:
    others = np.linspace(-1, 1, n - 1)[:, None]
    pair = np.vstack([others, [[_FAR]]]), np.vstack([others, [[-_FAR]]])
    bounds = Unknown(_FAR, method=method, **options)
    return _case("mean", bounds, pair, runs=runs, n=n, d=1, noise=noise, **_LOOSE)


_FRIENDS, _BLOCKS = 400, 200


def _friendly(noise: str) -> Case:
    claim = friendly_plan(_FRIENDS, 1, 1.0, noise=noise, budget=Budget(**_LOOSE)).privacy

    def mechanism(data: Floats, rng: np.random.Generator) -> Floats:
        with uncharged():
            return friendly_numbers(friendly_mean(data, 1.0, rng=rng, threads=1, noise=noise, **_LOOSE))

    return Case(mechanism, _replace_last_row([1.0], [-1.0], _FRIENDS), claim, 4_000)


def _aggregate_case() -> Case:
    audited_plan = friendly_plan(_BLOCKS, 1, 1.0, budget=Budget(**_LOOSE))
    options: dict[str, Any] = {"blocks": _BLOCKS, "radius": 1.0, "dimension": 1, "workers": 1, "noise": "gaussian"}

    def here(data: Floats, rng: np.random.Generator) -> Floats:
        """The same without a process for each block, since there are millions of blocks."""
        with Session.open(data, Selection(), None, Reading(rng)) as session:
            blocks = deal(len(data), _BLOCKS, session.seed())
            results = np.stack([_mean(data[block]) for block in blocks])
            return friendly_numbers(
                run_friendly(audited_plan, results, session.spend(audited_plan.privacy, "an audit"), threads=1)
            )

    def whole(data: Floats, rng: np.random.Generator) -> Floats:
        with uncharged():
            return friendly_numbers(subsample_and_aggregate(_mean, data, rng=rng, **options, **_LOOSE))

    return Case(here, _replace_last_row([2.0], [-2.0], 2 * _BLOCKS), audited_plan.privacy, 4_000, whole)


def _mean(block: Floats) -> Floats:
    mean: Floats = block.mean(axis=0)
    return mean


def _projection(adversary: str) -> Case:
    pair = _replace_last_row([1.0, 0.0], [-1.0, 0.0], 2)

    def run_projection(data: Floats, rng: np.random.Generator | None = None) -> Projection:
        with warnings.catch_warnings(), uncharged():
            warnings.simplefilter("ignore", ProjectionWarning)
            return project(data, 2, Ball(1.0), rng=rng, adversary=adversary, **_LOOSE)

    def mechanism(data: Floats, rng: np.random.Generator) -> Floats:
        return along(run_projection(data, rng), 1, pair[1][1] - pair[0][1])

    return Case(mechanism, pair, run_projection(pair[0]).privacy, 4_000)


_CORNERS = _replace_last_row([0.0, -1.0], [1.0, 2.0])
_MOVED = _replace_last_row([0.5], [1.5])
_ACROSS = _replace_last_row([1.0, 0.0], [-1.0, 0.0])
CASES: dict[str, Callable[[], Case]] = {
    "sum-ball": lambda: _vectors(Ball(1.0), _ACROSS, **_ONE),
    "sum-ball-add-remove": lambda: _vectors(Ball(1.0), _add_row([1.0, 0.0]), neighbors="add_remove", **_ONE),
    "sum-ball-norm": lambda: _vectors(Ball(1.0), _ACROSS, noise="knorm", epsilon=2, delta=1e-3),
    "sum-box": lambda: _vectors(_BOX, _CORNERS, noise="gaussian", **_ONE),
    "sum-box-add-remove": lambda: _vectors(_BOX, _add_row([1.0, 2.0]), neighbors="add_remove", **_ONE),
    "sum-box-norm": lambda: _vectors(_BOX, _CORNERS, noise="knorm", epsilon=1, delta=0),
    "sum-normal": lambda: _vectors(
        Normal([0.0, 0.0], std=[1.0, 2.0]), _replace_last_row([99.0, 0.0], [-99.0, 0.0]), count_clipped=False, **_ONE
    ),
    "mean-ball": lambda: _vectors(Ball(1.0), _ACROSS, statistic="mean", **_ONE),
    "mean-ball-add-remove": lambda: _vectors(
        Ball(1.0), _add_row([1.0, 0.0]), statistic="mean", neighbors="add_remove", **_ONE
    ),
    "mean-box": lambda: _vectors(_BOX, _CORNERS, statistic="mean", noise="gaussian", **_ONE),
    "describe-box": lambda: _vectors(_BOX, _CORNERS, statistic="describe", noise="gaussian", quantiles=None, **_ONE),
    "describe-quantiles": lambda: _describe_case(_CORNERS, **_ONE),
    "count": lambda: _case("count", None, _add_row([0.0]), neighbors="add_remove", **_PURE),
    "count-groups": lambda: _case(
        "count", None, (_cities(1.0), _cities(1.0, "a")), groups=2, by=Groups("city", ["a", "b"]), **_ONE
    ),
    "histogram": lambda: _case("histogram", None, _MOVED, bins=[0, 1, 2], **_PURE),
    "histogram-gaussian": lambda: _case("histogram", None, _MOVED, bins=[0, 1, 2], **_ONE),
    "people-mean": lambda: _people(People("name"), "mean"),
    "people-sum": lambda: _people(People("name", "sum", 1), "sum"),
    "people-rows": lambda: _people(People("name", "rows", 2), "mean"),
    "groups-listed": lambda: _groups(["a", "b"], (_cities(1.0), _cities(1.0, "a")), **_ONE),
    "groups-private": lambda: _groups(None, _ALONE, neighbors="add_remove", epsilon=0.5, delta=0.02),
    "quantiles-cdf": lambda: _quantiles(_replace_last_row([0.5], [6.5]), **_ONE),
    "quantiles-cdf-add-remove": lambda: _quantiles(_add_row([4.5]), neighbors="add_remove", **_ONE),
    "quantiles-tree": lambda: _quantiles(_replace_last_row([0.5], [6.5])),
    "quantiles-exponential": lambda: _choices(0.5, [1, 2, 3], [2, 2, 2]),
    "quantiles-exponential-add-remove": lambda: _choices(0.9, [8, 2, 1], [8, 2, 0], neighbors="add_remove"),
    "learning-coinpress": lambda: _learning("coinpress", 4_000, std=1.0),
    "learning-instance-optimal": lambda: _learning("instance_optimal", 1_000),
    "friendly-mean": lambda: _friendly("gaussian"),
    "friendly-mean-norm": lambda: _friendly("knorm"),
    "subsample-and-aggregate": _aggregate_case,
    "projection": lambda: _projection("oblivious"),
    "projection-adaptive": lambda: _projection("adaptive"),
    "learning-auto": lambda: _learning("auto", 1_000, noise="gaussian"),
    "learning-columns": lambda: _learning("auto", 4_000, n=400, noise="knorm"),
}


def case_of(name: str) -> Case:
    """The case of this name."""
    if name not in CASES:
        raise UsageError(f"There is no such mechanism to audit. Use one of {listing(CASES)}.")
    return CASES[name]()
