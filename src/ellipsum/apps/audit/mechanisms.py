"""The library's own releases as mechanisms: whole, or with the noise of many releases drawn in one call."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import AccuracyWarning, Floats
from ...friendly.release import FriendlyRelease, NoCenter
from ...kernels.accumulate import Partial
from ...ledger.ledger import uncharged
from ...numerics.wide_integers import Wide
from ...plans.base import Runnable
from ...plans.group_plan import GroupPlan
from ...plans.plan import Plan
from ...projection import Projection
from ...releases.release import Release
from ...session import Reading, Session
from ...sources import Selection


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
    value: Floats = release.value if release.count is None else np.append(release.value, release.count)
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
