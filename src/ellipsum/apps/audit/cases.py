"""The library's mechanisms with pairs of data sets that bring out as much as they may give away."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...api import plan
from ...errors import AccuracyWarning, Floats, UsageError, listing
from ...friendly import friendly_mean, subsample_and_aggregate
from ...friendly.aggregate import deal
from ...friendly.plan import friendly_plan
from ...friendly.release import FriendlyRelease, NoCenter, run_friendly
from ...kernels.accumulate import Partial
from ...ledger.ledger import uncharged
from ...numerics.wide_integers import Wide
from ...plans.base import Runnable
from ...plans.group_plan import GroupPlan
from ...plans.plan import Plan
from ...privacy.budget import Budget
from ...projection import Projection, ProjectionWarning, project
from ...releases.release import Release
from ...rows import Ball, Box, Normal, Unknown
from ...session import Reading, Session
from ...sources import Selection
from .bounds import Claim


@dataclass(frozen=True)
class Whole:
    """A plan's release on data, from the first row to the published value."""

    plan: Runnable

    def __call__(self, data: Any, rng: np.random.Generator) -> Floats:
        with warnings.catch_warnings(), uncharged():
            warnings.simplefilter("ignore", AccuracyWarning)
            return _published(self.plan.release(data, rng, threads=1))


@dataclass(frozen=True)
class WholePeople:
    """The same of a plan for people, whose rows are brought together once, and read in each run."""

    plan: Runnable

    def many(self, data: Any, runs: int, rng: np.random.Generator) -> Floats:
        plan = self.plan
        with Session.open(data, Selection(names=plan.columns), plan.people, Reading(rng, threads=1)) as session:
            return np.stack([_published(plan.run(session)) for _ in range(runs)])


def _published(release: Release) -> Floats:
    value: Floats = release.value if release.row_count is None else np.append(release.value, release.row_count)
    return value


@dataclass(frozen=True)
class NoisySums:
    """The noisy sums that a plan's release is made of: rows are added up once, and each run draws noise of its own
    [A4]."""

    plan: Plan

    def many(self, data: Any, runs: int, rng: np.random.Generator) -> Floats:
        plan = self.plan
        with Session.open(data, Selection(names=plan.columns), plan.people, Reading(rng, threads=1)) as session:
            stream = session.spend(plan.privacy, plan.statistic)
            sums = self._sums(session.total(plan.row_map, public=plan.public_rows))
        copies = Wide(*(np.tile(limbs, (runs, 1)) for limbs in (sums.high, sums.low)))
        return plan.noise_law.add(copies, [], stream)

    def _sums(self, partial: Partial) -> Wide:
        """As `Plan.noisy_sums` has them: the weighted count comes last."""
        weight = self.plan.count_units
        return partial.sums.join(Wide.from_ints([partial.rows * weight])) if weight else partial.sums


@dataclass(frozen=True)
class NoisyGroups:
    """The noisy sums of groups, in a release of so many of them; a group that is not published is all zeros [A4]."""

    plan: GroupPlan
    groups: int

    def many(self, data: Any, runs: int, rng: np.random.Generator) -> Floats:
        plan, how = self.plan, Reading(rng, threads=1)
        keys = plan.grouping.keys
        with Session.open(data, Selection(names=plan.columns), plan.people, how, plan.grouping) as session:
            stream = session.spend(plan.privacy, plan.statistic)
            sums = session.total_by(plan.one.row_map, keys, public=False)
        present = np.flatnonzero(sums.rows > 0) if keys is None else np.arange(sums.rows.size)
        noisy = plan.noisy(sums.chosen(np.tile(present, runs)), stream).reshape(runs, present.size, plan.width)
        if keys is None:
            noisy = np.where(plan.reaches(noisy)[..., None], noisy, 0.0)
        out = np.zeros((runs, self.groups, plan.width))
        out[:, : present.size] = noisy
        return out.reshape(runs, -1)


@dataclass(frozen=True)
class WholeGroups:
    """A plan's release of groups, from the first row on; a group that is not published is all zeros."""

    plan: GroupPlan
    groups: int

    def __call__(self, data: Any, rng: np.random.Generator) -> Floats:
        with warnings.catch_warnings(), uncharged():
            warnings.simplefilter("ignore", AccuracyWarning)
            noisy: Any = self.plan.release(data, rng, threads=1).noisy
        out = np.zeros((self.groups, self.plan.width))
        out[: len(noisy)] = noisy
        return out.reshape(-1)


def friendly_numbers(made: FriendlyRelease | NoCenter) -> Floats:
    """Everything that a friendly mean publishes: the agreement, whether there is a center, and the center."""
    if isinstance(made, NoCenter):
        return np.concatenate([[made.agreement, 0.0], np.zeros(made.plan.d)])
    return np.concatenate([[made.agreement, 1.0], made.value])


def along(made: Projection, row: int, shift: Floats) -> Floats:
    """How far a projected row lies along a change of it, as the published matrix maps it, and how far that goes."""
    mapped = shift @ made.matrix
    length = float(np.linalg.norm(mapped))
    return np.array([made.value[row] @ mapped / length])


_ONE: dict[str, Any] = {"budget": Budget(mu=1.0)}
_LOOSE: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-3}
_BATCHED = 1_000_000
_BOX = Box([0.0, -1.0], [1.0, 2.0])
_FAR = 10.0


@dataclass(frozen=True)
class Case:
    """A mechanism, two neighboring data sets and what is claimed."""

    mechanism: Any
    pair: tuple[Any, Any]
    claim: Claim
    runs: int
    """What an audit of it usually takes."""
    whole: Any = None
    """The same release from the first row on, where `mechanism` draws noise in batches."""


def _replaced(one: Any, other: Any, n: int = 5) -> tuple[Floats, Floats]:
    """n rows of zeros, the last of which is one row or the other."""
    rows = np.zeros((n - 1, len(one)))
    return np.vstack([rows, one]), np.vstack([rows, other])


def _added(row: Any, n: int = 5) -> tuple[Floats, Floats]:
    """n rows of zeros, and the same with one more row."""
    rows = np.zeros((n, len(row)))
    return rows, np.vstack([rows, row])


def _of_plan(rows: Any, pair: tuple[Any, Any], *, n: int = 5, d: int = 2, **words: Any) -> Case:
    made: Any = plan(rows, n=n, d=d, **words)
    return Case(NoisySums(made), pair, made.privacy, _BATCHED, Whole(made))


def _people(per_person: str, pair: tuple[Any, Any], **words: Any) -> Case:
    words |= {"d": 1, "privacy_id": "name", "per_person": per_person, "noise": "gaussian"}
    made = _of_plan(Box([-1.0], [1.0]), pair, **words)
    return replace(made, whole=WholePeople(made.mechanism.plan))


def _visits(values: list[float]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Five people with two visits each; those of the last are all at one bound or all at the other."""
    names = np.repeat(np.arange(5), len(values))
    rest = np.zeros(4 * len(values))
    ends = (np.concatenate([rest, values]), np.concatenate([rest, np.negative(values)]))
    return {"name": names, "x": ends[0]}, {"name": names, "x": ends[1]}


def _cities(last: float, name: str = "b") -> dict[str, Any]:
    """Rows of one city, and one more row."""
    return {"city": ["a"] * 4 + [name], "x": np.array([0.0] * 4 + [last])}


_ALONE: Any = tuple({"city": np.array(["b"] * rows, dtype=str), "x": np.zeros(rows)} for rows in (0, 1))


def _groups(keys: list[str] | None, pair: tuple[Any, Any], **words: Any) -> Case:
    made: Any = plan(Box({"x": (-1.0, 1.0)}), n=5, by="city", keys=keys, noise="gaussian", **words)
    groups = len(keys or "b")
    return Case(NoisyGroups(made, groups), pair, made.privacy, _BATCHED, WholeGroups(made, groups))


def _learning(method: str, runs: int, n: int = 100, **words: Any) -> Case:
    made: Any = plan(Unknown(_FAR), n=n, d=1, statistic="mean", method=method, **words, **_LOOSE)
    spread = np.linspace(-1, 1, n - 1)[:, None]
    pair = np.vstack([spread, [[_FAR]]]), np.vstack([spread, [[-_FAR]]])
    return Case(Whole(made), pair, made.privacy, runs)


_FRIENDS, _BLOCKS = 400, 200


def _friendly(noise: str) -> Case:
    claim = friendly_plan(_FRIENDS, 1, 1.0, noise=noise, budget=Budget(**_LOOSE)).privacy

    def mechanism(data: Floats, rng: np.random.Generator) -> Floats:
        with uncharged():
            return friendly_numbers(friendly_mean(data, 1.0, rng=rng, threads=1, noise=noise, **_LOOSE))

    return Case(mechanism, _replaced([1.0], [-1.0], _FRIENDS), claim, 4_000)


def _aggregated() -> Case:
    made = friendly_plan(_BLOCKS, 1, 1.0, budget=Budget(**_LOOSE))
    words: dict[str, Any] = {
        "blocks": _BLOCKS,
        "radius": 1.0,
        "dimension": 1,
        "workers": 1,
        "noise": "gaussian",
        **_LOOSE,
    }

    def here(data: Floats, rng: np.random.Generator) -> Floats:
        """Without a process for each block, of which there would be millions."""
        with Session.open(data, Selection(), None, Reading(rng)) as session:
            blocks = deal(len(data), _BLOCKS, session.seed())
            results = np.stack([_mean(data[block]) for block in blocks])
            return friendly_numbers(run_friendly(made, results, session.spend(made.privacy, "an audit"), threads=1))

    def whole(data: Floats, rng: np.random.Generator) -> Floats:
        with uncharged():
            return friendly_numbers(subsample_and_aggregate(_mean, data, rng=rng, **words))

    return Case(here, _replaced([2.0], [-2.0], 2 * _BLOCKS), made.privacy, 4_000, whole)


def _mean(block: Floats) -> Floats:
    mean: Floats = block.mean(axis=0)
    return mean


def _projection(adversary: str) -> Case:
    pair = _replaced([1.0, 0.0], [-1.0, 0.0], 2)
    words: dict[str, Any] = {"adversary": adversary, **_LOOSE}

    def projected(data: Floats, rng: np.random.Generator | None = None) -> Projection:
        with warnings.catch_warnings(), uncharged():
            warnings.simplefilter("ignore", ProjectionWarning)
            return project(data, 2, Ball(1.0), rng=rng, **words)

    def mechanism(data: Floats, rng: np.random.Generator) -> Floats:
        return along(projected(data, rng), 1, pair[1][1] - pair[0][1])

    return Case(mechanism, pair, projected(pair[0]).privacy, 4_000)


_CORNERS = _replaced([0.0, -1.0], [1.0, 2.0])
_ACROSS = _replaced([1.0, 0.0], [-1.0, 0.0])
CASES: dict[str, Callable[[], Case]] = {
    "sum-ball": lambda: _of_plan(Ball(1.0), _ACROSS, **_ONE),
    "sum-ball-add-remove": lambda: _of_plan(Ball(1.0), _added([1.0, 0.0]), neighbors="add_remove", **_ONE),
    "sum-ball-norm": lambda: _of_plan(Ball(1.0), _ACROSS, noise="norm", epsilon=2, delta=1e-3),
    "sum-box": lambda: _of_plan(_BOX, _CORNERS, noise="gaussian", **_ONE),
    "sum-box-add-remove": lambda: _of_plan(_BOX, _added([1.0, 2.0]), neighbors="add_remove", **_ONE),
    "sum-box-norm": lambda: _of_plan(_BOX, _CORNERS, noise="norm", epsilon=1, delta=0),
    "sum-normal": lambda: _of_plan(
        Normal([0.0, 0.0], std=[1.0, 2.0]), _replaced([99.0, 0.0], [-99.0, 0.0]), check=False, **_ONE
    ),
    "mean-ball": lambda: _of_plan(Ball(1.0), _ACROSS, statistic="mean", **_ONE),
    "mean-ball-add-remove": lambda: _of_plan(
        Ball(1.0), _added([1.0, 0.0]), statistic="mean", neighbors="add_remove", **_ONE
    ),
    "mean-box": lambda: _of_plan(_BOX, _CORNERS, statistic="mean", noise="gaussian", **_ONE),
    "describe-box": lambda: _of_plan(_BOX, _CORNERS, statistic="describe", noise="gaussian", **_ONE),
    "people-mean": lambda: _people("mean", _visits([1.0, 1.0]), statistic="mean", **_ONE),
    "people-sum": lambda: _people("sum", _visits([1.0, 1.0]), max_rows=1, **_ONE),
    "people-rows": lambda: _people("rows", _visits([1.0, 1.0]), max_rows=2, statistic="mean", **_ONE),
    "groups-listed": lambda: _groups(["a", "b"], (_cities(1.0), _cities(1.0, "a")), **_ONE),
    "groups-private": lambda: _groups(None, _ALONE, neighbors="add_remove", epsilon=0.5, delta=0.02),
    "learning-coinpress": lambda: _learning("coinpress", 4_000, std=1.0),
    "learning-instance-optimal": lambda: _learning("instance_optimal", 1_000),
    "friendly-mean": lambda: _friendly("gaussian"),
    "friendly-mean-norm": lambda: _friendly("norm"),
    "subsample-and-aggregate": _aggregated,
    "projection": lambda: _projection("oblivious"),
    "projection-adaptive": lambda: _projection("adaptive"),
    "learning-auto": lambda: _learning("auto", 1_000),
    "learning-columns": lambda: _learning("auto", 4_000, n=400, noise="norm"),
}


def case_of(name: str) -> Case:
    """The case of this name."""
    if name not in CASES:
        raise UsageError(f"there is no mechanism of this name to audit. There are {listing(CASES)}.")
    return CASES[name]()
