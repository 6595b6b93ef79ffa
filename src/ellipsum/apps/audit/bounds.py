"""Lower bounds on the privacy loss of a mechanism, from its runs on two neighboring data sets.

Proofs: docs/proofs/audit.md, [A1] to [A4] and [A6].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ... import UsageError
from ...display.document import Document, TextTable
from ...display.result import Printed
from ...errors import Floats, finite, open_unit
from ...request.documentation import public
from ...session import Progress
from ...sources.protocol import report_steps
from ...util import json_codec
from ...util.structural_equality import ValueEquality
from ...version import VERSION
from .events import (
    MU_BOUNDS,
    Event,
    Score,
    at_least,
    at_most,
    choose_for_epsilon,
    choose_for_mu,
    epsilon_bound,
    learn_scores,
)
from .runs import LEAST_RUNS, Mechanism, Pair, PairRuns

_LEAST_CONFIDENCE = 0.75
_CHOOSING = 10, 20_000  # A tenth of the runs learns scores, a tenth chooses the event; at most 20,000 each.
_MOST_LOOKS = 6
_DELTAS = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
_POINTS = np.geomspace(1e-5, 0.3, 25)
_FARTHEST = 8.0  # The claimed curve is drawn up to this multiple of the largest audited epsilon.
_EPSILONS = np.concatenate([np.zeros(1), np.geomspace(1e-3, 100, 400)])


class Claim(Protocol):
    """A guarantee with a privacy curve: `Privacy`, `Budget`, or an object of another library."""

    def delta(self, epsilon: float) -> float: ...


@dataclass(frozen=True, repr=False)
class Audit(Printed, ValueEquality):
    """Lower bounds on the privacy loss of a mechanism: no guarantee below them holds.

    Attributes
    ----------
    mu_lower : float
        The mechanism is not mu-Gaussian DP for any mu below this; 0 if nothing was found.
    runs : int
        Runs on each data set.
    counted : int
        Runs on each data set that were counted; the others chose what to count.
    confidence : float
        Each bound, taken by itself, is wrong with probability at most ``1 - confidence``.
    hits, alarms : int
        How often the counted event happened on the second and on the first data set.
    failures : tuple of int
        Counted runs on each data set that raised an exception or did not give finite numbers.

    Notes
    -----
    Proofs: [A1] to [A3], and [A6] where a claim may end the runs early.

    Examples
    --------
    >>> import numpy as np, ellipsum as es
    >>> def noisy_sum(data, rng):
    ...     return data.sum() + rng.normal(0, 2)
    >>> pair = np.array([0.0, 0.0]), np.array([0.0, 2.0])  # one row replaced; the sums differ by one std
    >>> result = es.audit(noisy_sum, pair, runs=20_000)
    >>> result.contradicts(es.Budget(mu=0.5))  # its mu is 1
    True
    """

    runs: int
    confidence: float
    score: str
    event: Event
    chosen: tuple[Floats, Floats] = field(compare=False)
    """Scores of the runs for choosing the event, on each data set."""
    measured: tuple[Floats, Floats]
    """Scores of the counted runs."""
    looks: int = 1
    """The largest number of looks at the runs; all their bounds together hold with the confidence [A6]."""

    @property
    def miss(self) -> float:
        return (1 - self.confidence) / self.looks

    @property
    def counted(self) -> int:
        return self.measured[0].size

    @cached_property
    def _counts(self) -> tuple[int, int]:
        return self.event.counts(*self.measured)

    @property
    def hits(self) -> int:
        return self._counts[0]

    @property
    def alarms(self) -> int:
        return self._counts[1]

    @cached_property
    def failures(self) -> tuple[int, int]:
        first, second = (int(np.count_nonzero(np.isinf(scores))) for scores in self.measured)
        return first, second

    @cached_property
    def mu_lower(self) -> float:
        return max(float(MU_BOUNDS[self.event.rule](*self._counts, self.counted, self.miss)), 0.0)

    def epsilon_lower(self, delta: float) -> float:
        """Return a lower bound on epsilon at a delta: the mechanism is not (epsilon, delta)-DP below it [A1]."""
        delta = finite("delta", delta)
        if not 0 <= delta < 1:
            raise UsageError(f"delta must be at least 0 and below 1, got {delta:g}.")
        event = choose_for_epsilon(*self.chosen, self.miss, delta)
        hits, alarms = event.counts(*self.measured)
        return float(epsilon_bound(hits, alarms, self.counted, self.miss, delta))

    def contradicts(self, claim: Claim) -> bool:
        """Return whether the counted event is more likely than a guarantee allows [A1]."""
        if self.event.rule == "pooled":
            share = float(at_least(self.hits + self.counted - self.alarms, 2 * self.counted, self.miss))
            return 2 * share - 1 > claim.delta(0.0)
        certain = float(at_least(self.hits, self.counted, self.miss / 2))
        doubtful = float(at_most(self.alarms, self.counted, self.miss / 2))
        return any(certain > math.exp(e) * doubtful + claim.delta(e) for e in _EPSILONS.tolist())

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": "ellipsum.audit/1",
            "version": VERSION,
            "mu_lower": self.mu_lower,
            "epsilon_lower": [{"delta": delta, "epsilon": self.epsilon_lower(delta)} for delta in _DELTAS],
            "runs": self.runs,
            "counted": self.counted,
            "confidence": self.confidence,
            "score": self.score,
            "rule": self.event.rule,
            "hits": self.hits,
            "false_alarms": self.alarms,
            "failures": list(self.failures),
        }

    def to_json(self) -> str:
        return json_codec.dump(self.to_dict())

    def plot(self, path: str | Path | None = None, claim: Claim | None = None) -> Any:
        """Draw the audited points and the claimed curve; return a matplotlib figure, or write it to a file too."""
        label = f"audited: at least, {self.confidence:.4g} confidence"
        title = f"Audit of {self.runs} runs on each data set: mu >= {self.mu_lower:.4g}"
        return audit_plot(self.epsilon_lower, label, None if claim is None else claim.delta, title, path)

    def document(self, most: int | None = None) -> Document:
        lines = [[f"{delta:g}", f"{self.epsilon_lower(delta):.4g}"] for delta in (0.0, 1e-5, 1e-3)]
        facts = [
            ("Confidence", f"{self.confidence:.4g}"),
            ("Runs", f"{self.runs:,} on each data set, {self.counted:,} of them counted"),
            ("Event", f"{self.score}: {self.hits:,} hits, {self.alarms:,} false alarms"),
        ]
        if any(self.failures):
            facts.append(("Failures", f"{self.failures[0]:,} and {self.failures[1]:,} runs"))
        table = TextTable(["delta", "epsilon at least"], lines)
        return Document(f"Audit: mu >= {self.mu_lower:.4g}", [table], facts)


@public
def audit(
    mechanism: Mechanism,
    pair: Pair,
    *,
    runs: int,
    confidence: float = 0.99,
    claim: Claim | None = None,
    processes: int | None = None,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Run a mechanism on two neighboring data sets and bound its privacy loss from below.

    Parameters
    ----------
    mechanism : callable
        A function of data, or of data and a numpy Generator. It returns a number, a vector or a release. An object
        with a method ``many(data, runs, rng)`` draws many outputs in one call, one per row.
    pair : tuple
        Two neighboring data sets. The closer to the worst pair, the more is found.
    runs : int
        Runs on each data set, at least 100.
    confidence : float, default 0.99
        Confidence of each bound, at least 0.75.
    claim : Privacy, Budget or any object with ``delta(epsilon)``, optional
        A guarantee to test: the runs end as soon as they contradict it. The bounds are then a little lower.
    processes : int, optional
        Processes to use. By default all cores, if single runs are slow.
    rng : numpy.random.Generator, optional
        Makes the audit repeatable; a mechanism with two arguments draws from it.

    Returns
    -------
    Audit
        Lower bounds on mu and epsilon. A bound of 0 proves nothing.

    Raises
    ------
    UsageError
        If an argument is invalid, or the mechanism fails on both data sets.

    Notes
    -----
    Proofs: [A1] to [A4] and [A6]. A run that fails is an outcome like any other and is counted in `Audit.failures`.

    Examples
    --------
    >>> import numpy as np, ellipsum as es
    >>> def noisy_sum(data, rng):
    ...     return data.sum() + rng.normal(0, 2)
    >>> pair = np.array([0.0, 0.0]), np.array([0.0, 2.0])
    >>> result = es.audit(noisy_sum, pair, runs=20_000)
    >>> result.contradicts(es.Budget(mu=2))  # its mu is 1
    False
    """
    confidence = open_unit("confidence", confidence)
    if confidence < _LEAST_CONFIDENCE:  # [A3]
        raise UsageError(f"confidence must be at least {_LEAST_CONFIDENCE}, got {confidence:g}.")
    if claim is not None and not callable(getattr(claim, "delta", None)):
        raise UsageError(f"claim must be a guarantee, as es.Privacy is, got {type(claim).__name__}.")
    work = PairRuns.of(mechanism, pair, runs, processes, rng)
    with report_steps(progress, public=True) as work.report:
        return _audited(work, confidence, claim)


def _score(work: PairRuns, stage: int, runs: int, scores: list[Score]) -> list[tuple[Floats, Floats]]:
    """For each score, its values on both data sets."""
    values: list[tuple[list[Floats], list[Floats]]] = [([], []) for _ in scores]
    for which, outputs in work.outputs(stage, runs):
        for score, samples in zip(scores, values, strict=True):
            samples[which].append(score(outputs))
    return [(np.concatenate(first), np.concatenate(second)) for first, second in values]


def _audited(work: PairRuns, confidence: float, claim: Claim | None) -> Audit:
    """Learn scores, choose an event and count it, each on separate runs [A2]; look at the counts several times [A6]."""
    few = min(work.runs // _CHOOSING[0], _CHOOSING[1])
    looks = _looks(work.runs - 2 * few, claim)
    miss = (1 - confidence) / len(looks)
    scores = learn_scores(*work.collect(0, few))
    tried = _score(work, 1, few, scores)
    candidates = [(*choose_for_mu(*values, miss), place) for place, values in enumerate(tried)]
    _, event, place = max(candidates, key=lambda entry: entry[0])
    measured = np.empty(0), np.empty(0)
    for stage, runs in enumerate(looks, 2):
        ((first, second),) = _score(work, stage, runs, [scores[place]])
        measured = np.concatenate([measured[0], first]), np.concatenate([measured[1], second])
        done = measured[0].size + 2 * few
        result = Audit(done, confidence, scores[place].name, event, tried[place], measured, len(looks))
        if claim is not None and result.contradicts(claim):
            break
    return result


def _looks(counted: int, claim: Claim | None) -> list[int]:
    """The number of runs before each look. Where a claim may end the audit, each look doubles the counted runs."""
    parts = [counted]
    while claim is not None and len(parts) < _MOST_LOOKS and parts[0] >= 2 * LEAST_RUNS:
        parts[:1] = [parts[0] // 2, parts[0] - parts[0] // 2]
    return parts


# The picture --------------------------------------------------------------------------------------------


def audit_plot(
    lower: Callable[[float], float],
    label: str,
    claimed: Callable[[float], float] | None,
    title: str,
    path: str | Path | None,
) -> Any:
    """Draw the audited epsilon of each delta, below the claimed curve, which gives delta for each epsilon."""
    from ...display.plots.drawing import check_format, figure, plain, save, styled

    if path is not None:
        check_format(path)
    picture, axis = figure(7.0, 4.5)
    with styled():
        _draw(axis, lower, label, claimed)
        axis.set_title(plain(title))
    if path is not None:
        save(picture, path)
    return picture


def _draw(axis: Any, lower: Callable[[float], float], label: str, claimed: Callable[[float], float] | None) -> None:
    from ...display.plots.drawing import logarithmic, plain, stroke, ticks

    lowest = [lower(delta) for delta in _POINTS.tolist()]
    if claimed is not None:
        epsilons = np.linspace(0, _reach(claimed, max(1.5 * max(lowest), 1.0)), 200)
        deltas = [claimed(epsilon) for epsilon in epsilons.tolist()]
        axis.plot(deltas, epsilons, **{**stroke(0), "marker": ""}, label="claimed: at most")
    axis.plot(_POINTS, np.array(lowest), **{**stroke(1), "linestyle": ""}, label=plain(label))
    logarithmic(axis, "x", _POINTS[0] / 2, 1.0)
    top = 1.05 * max(float(line.get_ydata().max()) for line in axis.lines)
    axis.set_ylim(-0.02 * top, top)
    axis.set_yticks(*ticks(0.0, top, 3.5))
    axis.set_xlabel("delta")
    axis.set_ylabel("epsilon")
    axis.legend()


def _reach(claimed: Callable[[float], float], least: float) -> float:
    """The largest epsilon of the claimed curve in the picture: there the curve leaves it at the left side."""
    most = least
    while most < _FARTHEST * least and claimed(most) > _POINTS[0] / 2:
        most *= 1.25
    return most
