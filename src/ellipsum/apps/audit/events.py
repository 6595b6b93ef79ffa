"""Events that tell two data sets apart, and what their counts prove about any guarantee.

docs/proofs/audit.md: [A1] one event, [A2] counts to probabilities, [A3] both data sets counted together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import Floats

Bound = Callable[[Any, Any, int, float], Any]
_RANKS = 256
_MANY = 1e4  # no fewer than the events that are tried


@dataclass(frozen=True)
class Event:
    """A score above a threshold, which speaks for the second data set; or one at most that, for the first."""

    threshold: float
    above: bool
    rule: str
    """"pair": hits and false alarms are bounded one by one; "pooled": right answers on both data sets together."""

    def counts(self, first: Floats, second: Floats) -> tuple[int, int]:
        """(hits, false alarms): how often it happens where it should, and where it should not."""
        above = [int(np.count_nonzero(scores > self.threshold)) for scores in (first, second)]
        if self.above:
            return above[1], above[0]
        return first.size - above[0], second.size - above[1]


def at_least(hits: Any, runs: int, miss: float) -> Any:
    """A lower bound on a probability (Clopper and Pearson) that is wrong with probability `miss` at most [A2]."""
    from scipy.special import betaincinv

    hits = np.asarray(hits, np.float64)
    return np.where(hits > 0, betaincinv(np.maximum(hits, 1), runs - hits + 1, miss), 0.0)


def at_most(hits: Any, runs: int, miss: float) -> Any:
    """An upper bound on a probability, as `at_least` [A2]."""
    return 1.0 - at_least(runs - np.asarray(hits), runs, miss)


def pair_mu(hits: Any, alarms: Any, runs: int, miss: float) -> Any:
    """No mu below this allows the event; hits and alarms are bounded one by one [A1][A2]."""
    from scipy.special import ndtri

    certain, doubtful = at_least(hits, runs, miss / 2), at_most(alarms, runs, miss / 2)
    open_ended = (certain <= 0) | (doubtful >= 1)
    return np.where(open_ended, 0.0, ndtri(certain) - ndtri(doubtful))


def pooled_mu(hits: Any, alarms: Any, runs: int, miss: float) -> Any:
    """No mu below this allows so many right answers [A3]."""
    from scipy.special import ndtri

    return 2 * ndtri(at_least(np.asarray(hits) + runs - np.asarray(alarms), 2 * runs, miss))


MU_BOUNDS: dict[str, Bound] = {"pair": pair_mu, "pooled": pooled_mu}


def epsilon_bound(hits: Any, alarms: Any, runs: int, miss: float, delta: float) -> Any:
    """No epsilon below this allows the event at this delta [A1][A2]."""
    surplus = np.maximum(at_least(hits, runs, miss / 2) - delta, 0.0)
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(surplus) - np.log(at_most(alarms, runs, miss / 2)), 0.0)


@dataclass(frozen=True)
class Candidates:
    """Thresholds that cut two samples of scores in many ways, with the counts of both kinds of event."""

    thresholds: Floats
    above: tuple[Any, Any]
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

    def best(self, bound: Callable[[Any, Any], Any], rule: str) -> tuple[float, Event]:
        """The event of the largest bound on these counts, and that bound."""
        low, high = self.above
        found = []
        for above, hits, alarms in ((True, high, low), (False, self.runs - low, self.runs - high)):
            bounds = bound(hits, alarms)
            place = int(np.argmax(bounds))
            found.append((float(bounds[place]), Event(float(self.thresholds[place]), above, rule)))
        return max(found, key=lambda entry: entry[0])


def choose_for_mu(first: Floats, second: Floats, miss: float) -> tuple[float, Event]:
    """The event for a bound on mu, from scores that are not counted again, and what it is expected to show.

    Half-way between the two medians, which is best for noise that is symmetric, unless another event is certain to
    show more: the largest of many noisy estimates would stray from the best one.
    """
    middle = np.median(first) / 2 + np.median(second) / 2
    home = Event(float(middle) if np.isfinite(middle) else 0.0, True, "pooled")
    hits, alarms = home.counts(first, second)
    expected = float(pooled_mu(hits, alarms, first.size, 0.5))
    candidates, strict = Candidates.of(first, second), miss / _MANY
    pair = candidates.best(lambda hits, alarms: pair_mu(hits, alarms, first.size, strict), "pair")
    return max((expected, home), pair, key=lambda entry: entry[0])


def choose_for_epsilon(first: Floats, second: Floats, miss: float, delta: float) -> Event:
    """The event for a bound on epsilon: that of the largest bound on scores that are not counted again."""
    candidates = Candidates.of(first, second)
    return candidates.best(lambda hits, alarms: epsilon_bound(hits, alarms, first.size, miss, delta), "pair")[1]
