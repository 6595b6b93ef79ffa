"""Events that distinguish two data sets, and the bounds on any guarantee that follow from their counts.

docs/proofs/audit.md: [A1] one event, [A2] counts to probabilities, [A3] both data sets counted together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import Floats

_RIDGE = 1e-9  # Added to a correlation matrix, which is singular where coordinates share their noise.


@dataclass(frozen=True)
class Score:
    """A function from outputs to numbers. Large numbers are evidence for the second data set."""

    name: str
    measure: Callable[[Floats], Floats]
    sign: float
    failed: float
    """The score of a failed run or of an output that is not finite: plus or minus infinity."""

    def __call__(self, outputs: Floats) -> Floats:
        with np.errstate(all="ignore"):
            scores = self.sign * self.measure(outputs)
        return np.where(np.isfinite(outputs).all(axis=1) & np.isfinite(scores), scores, self.failed)


def learn_scores(first: Floats, second: Floats) -> list[Score]:
    """Scores that may distinguish the two data sets: along a direction, and by the distance from the center."""
    fails = [float(np.mean(~np.isfinite(outputs).all(axis=1))) for outputs in (first, second)]
    failed = np.inf if fails[1] >= fails[0] else -np.inf
    first, second = (outputs[np.isfinite(outputs).all(axis=1)] for outputs in (first, second))
    if not len(first) or not len(second):
        return [Score("failures", lambda outputs: np.zeros(len(outputs)), 1.0, failed)]
    center, std = _standard(first, second)
    first, second = (first - center) / std, (second - center) / std
    shift = second.mean(axis=0) - first.mean(axis=0)
    directions = {"difference of means": shift, "linear discriminant": _discriminant(first, second, shift)}
    scores = [Score(name, _along(center, std, w), 1.0, failed) for name, w in directions.items()]
    sign = 1.0 if np.mean(np.sum(second**2, axis=1)) >= np.mean(np.sum(first**2, axis=1)) else -1.0
    return [*scores, Score("distance from the center", _distance(center, std), sign, failed)]


def _standard(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """The center of both samples, and each coordinate's standard deviation; 1 where it never varies."""
    center = first.mean(axis=0) / 2 + second.mean(axis=0) / 2
    std = np.sqrt((first.var(axis=0) + second.var(axis=0)) / 2)
    std = np.where(std > 0, std, np.abs(second.mean(axis=0) - first.mean(axis=0)))
    return center, np.where((std > 0) & np.isfinite(std), std, 1.0)


def _discriminant(first: Floats, second: Floats, shift: Floats) -> Floats:
    """Fisher's direction, in which the difference is largest compared with the noise."""
    both = np.concatenate([first - first.mean(axis=0), second - second.mean(axis=0)])
    covariance = both.T @ both / len(both)
    direction: Floats = np.linalg.solve(covariance + _RIDGE * np.eye(shift.size), shift)
    return direction


def _along(center: Floats, std: Floats, weights: Floats) -> Callable[[Floats], Floats]:
    return lambda outputs: ((outputs - center) / std) @ weights


def _distance(center: Floats, std: Floats) -> Callable[[Floats], Floats]:
    return lambda outputs: np.sum(((outputs - center) / std) ** 2, axis=1)


Counts = NDArray[np.int64]
Bound = Callable[[ArrayLike, ArrayLike, int, float], Floats]
_RANKS = 256
_MANY = 1e4  # At least the number of events that are tried.


@dataclass(frozen=True)
class Event:
    """A score above a threshold (evidence for the second data set), or below it (evidence for the first)."""

    threshold: float
    above: bool
    rule: str
    """"pair": hits and false alarms are bounded one by one; "pooled": right answers on both data sets together."""

    def counts(self, first: Floats, second: Floats) -> tuple[int, int]:
        """(hits, false alarms): how often the event happens on its own data set, and on the other one."""
        above = [int(np.count_nonzero(scores > self.threshold)) for scores in (first, second)]
        if self.above:
            return above[1], above[0]
        return first.size - above[0], second.size - above[1]


def at_least(hits: ArrayLike, runs: int, miss: float) -> Floats:
    """A lower bound on a probability (Clopper and Pearson) that is wrong with probability `miss` at most [A2]."""
    from scipy.special import betaincinv

    count = np.asarray(hits, np.float64)
    bound: Floats = np.where(count > 0, betaincinv(np.maximum(count, 1), runs - count + 1, miss), 0.0)
    return bound


def at_most(hits: ArrayLike, runs: int, miss: float) -> Floats:
    """An upper bound on a probability, as `at_least` [A2]."""
    return 1.0 - at_least(runs - np.asarray(hits), runs, miss)


def pair_mu(hits: ArrayLike, alarms: ArrayLike, runs: int, miss: float) -> Floats:
    """No mu below this allows the event; hits and alarms are bounded one by one [A1][A2]."""
    from scipy.special import ndtri

    certain, doubtful = at_least(hits, runs, miss / 2), at_most(alarms, runs, miss / 2)
    open_ended = (certain <= 0) | (doubtful >= 1)
    bound: Floats = np.where(open_ended, 0.0, ndtri(certain) - ndtri(doubtful))
    return bound


def pooled_mu(hits: ArrayLike, alarms: ArrayLike, runs: int, miss: float) -> Floats:
    """No mu below this allows this number of right answers [A3]."""
    from scipy.special import ndtri

    bound: Floats = 2 * ndtri(at_least(np.asarray(hits) + runs - np.asarray(alarms), 2 * runs, miss))
    return bound


MU_BOUNDS: dict[str, Bound] = {"pair": pair_mu, "pooled": pooled_mu}


def epsilon_bound(hits: ArrayLike, alarms: ArrayLike, runs: int, miss: float, delta: float) -> Floats:
    """No epsilon below this allows the event at this delta [A1][A2]."""
    surplus = np.maximum(at_least(hits, runs, miss / 2) - delta, 0.0)
    with np.errstate(divide="ignore"):
        bound: Floats = np.maximum(np.log(surplus) - np.log(at_most(alarms, runs, miss / 2)), 0.0)
    return bound


@dataclass(frozen=True)
class Candidates:
    """Many thresholds for two samples of scores, and the number of scores above each."""

    thresholds: Floats
    above: tuple[Counts, Counts]
    runs: int

    @staticmethod
    def of(first: Floats, second: Floats) -> Candidates:
        pooled = np.sort(np.concatenate([first, second]))
        ends = np.unique(np.geomspace(1, pooled.size, _RANKS).astype(np.int64)) - 1
        even = np.linspace(0, pooled.size - 1, _RANKS).astype(np.int64)
        ranks = np.unique(np.concatenate([ends, pooled.size - 1 - ends, even]))
        thresholds = np.unique(pooled[ranks])
        above = [s.size - np.searchsorted(np.sort(s), thresholds, side="right") for s in (first, second)]
        return Candidates(thresholds, (above[0], above[1]), first.size)

    def best(self, bound: Callable[[Counts, Counts], Floats], rule: str) -> tuple[float, Event]:
        """The largest bound that these counts give, and its event."""
        low, high = self.above
        events = []
        for above, hits, alarms in ((True, high, low), (False, self.runs - low, self.runs - high)):
            bounds = bound(hits, alarms)
            place = int(np.argmax(bounds))
            events.append((float(bounds[place]), Event(float(self.thresholds[place]), above, rule)))
        return max(events, key=lambda entry: entry[0])


def choose_for_mu(first: Floats, second: Floats, miss: float) -> tuple[float, Event]:
    """The expected bound on mu and its event, from scores that are not counted again.

    The threshold is the middle of the two medians, which is best for symmetric noise. Another event replaces it only
    if its bound is certainly larger, since the largest of many noisy estimates is biased.
    """
    middle = np.median(first) / 2 + np.median(second) / 2
    home = Event(float(middle) if np.isfinite(middle) else 0.0, True, "pooled")
    hits, alarms = home.counts(first, second)
    expected = float(pooled_mu(hits, alarms, first.size, 0.5))
    candidates, strict = Candidates.of(first, second), miss / _MANY
    pair = candidates.best(lambda hits, alarms: pair_mu(hits, alarms, first.size, strict), "pair")
    return max((expected, home), pair, key=lambda entry: entry[0])


def choose_for_epsilon(first: Floats, second: Floats, miss: float, delta: float) -> Event:
    """The event with the largest bound on epsilon, from scores that are not counted again."""
    candidates = Candidates.of(first, second)
    return candidates.best(lambda hits, alarms: epsilon_bound(hits, alarms, first.size, miss, delta), "pair")[1]
