"""Rows far beyond the others: how many there are by noisy counts, where they may lie, and their law of norms."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..errors import Floats
from ..rows import NormLaw

_UNLIKELY = 0.15  # for each bin further out, as a log
_CERTAIN, _NEAR_BINS = 0.98, 3  # so likely rows must end within fewer bins than that, where nobody asks any more
_MOSTLY = 0.95  # of the rows that may be noise lie within the distance that is told
_MOST = 0.5  # of all rows: more are not few


@dataclass(frozen=True)
class Tally:
    """A noisy number of rows."""

    rows: float
    variance: float

    def joined(self, other: Tally) -> Tally:
        """Both by their variances."""
        total = self.variance + other.variance
        rows = (self.rows * other.variance + other.rows * self.variance) / total
        return Tally(rows, self.variance * other.variance / total)

    def less(self, rows: float) -> Tally:
        return Tally(self.rows - rows, self.variance)

    @property
    def std(self) -> float:
        return math.sqrt(self.variance)

    @property
    def sure(self) -> float:
        return self.rows / self.std


@dataclass(frozen=True)
class Far:
    """Rows far beyond the others: their share of all rows, and a law of their norms, at the far end of each bin.

    There none is clipped, wherever in its bin it lies.
    """

    share: float
    log_norms: Floats
    mass: Floats

    def joined(self, law: NormLaw) -> NormLaw:
        """The law of all rows, from that of the others."""
        at = np.minimum(np.searchsorted(law.grid, self.log_norms), law.grid.size - 1)
        far = np.bincount(at, self.mass, law.grid.size)
        return NormLaw(law.grid, (1 - self.share) * law.mass + self.share * far)

    def moment(self, power: int) -> float:
        """Mean power of the norm over all rows, those that are not far counted as 0."""
        return self.share * float((self.mass * np.exp2(power * self.log_norms)).sum())


@dataclass(frozen=True)
class Perhaps:
    """Rows that may be so far out: how many, the std of that, and the norm within which most would lie."""

    rows: float
    std: float
    norm: float

    def to_dict(self, radius: float) -> dict[str, float]:
        """With the distance in radii of the last round."""
        return {"rows": self.rows, "std": self.std, "radii": self.norm / radius}


def beyond(counts: Floats, std: float, n: float | None) -> Tally:
    """Rows beyond an edge, from noisy counts below and above it; n where the number of all rows is public."""
    above = Tally(float(counts[1:].sum()), std**2 * (counts.size - 1))
    return above if n is None else above.joined(Tally(n - float(counts[0]), std**2))


class Places:
    """Where so many rows may be among bins: evenly over neighboring ones, and which, as likely as noisy counts say.

    Beforehand a number of neighbors is as likely as its square is small, and the likelier the nearer they are: what a
    reach that is too far costs grows with it.
    """

    def __init__(self, bins: int, rows: float) -> None:
        self.bins = bins
        self.first, self.last = np.triu_indices(bins + 1, 1)
        self.size = self.last - self.first
        self.rows = rows
        self.log_weight = -2 * np.log(self.size) - np.log(bins + 1 - self.size) - _UNLIKELY * self.last

    def take(self, counts: Floats, variance: float) -> None:
        """Noisy counts of all bins."""
        sums = np.concatenate([[0.0], np.cumsum(counts)])
        each = self.rows / self.size
        misfit = each * self.rows / 2 - each * (sums[self.last] - sums[self.first])
        self.log_weight = self.log_weight - misfit / variance

    def halve(self, start: int, beyond: Tally) -> None:
        """A noisy count of all bins from one on."""
        rows = self.rows * np.clip((self.last - start) / self.size, 0, 1)
        self.log_weight = self.log_weight - (rows - beyond.rows) ** 2 / (2 * beyond.variance)

    @property
    def _weight(self) -> Floats:
        weight: Floats = np.exp(self.log_weight - self.log_weight.max())
        return weight / float(weight.sum())

    @property
    def middle(self) -> int | None:
        """The bin that as many rows as not end before, or None where it is known well enough where they end."""
        within = np.cumsum(np.bincount(self.last, self._weight, minlength=self.bins + 1))
        low, high = np.searchsorted(within, [(1 - _CERTAIN) / 2, (1 + _CERTAIN) / 2])
        if high - low < _NEAR_BINS:
            return None
        return int(low + np.argmin(np.abs(within[low:high] - 0.5)))

    @property
    def shares(self) -> Floats:
        """The expected share of the rows in each bin."""
        each = self._weight / self.size
        steps = np.bincount(self.first, each, self.bins + 1) - np.bincount(self.last, each, self.bins + 1)
        share: Floats = np.maximum(np.cumsum(steps)[:-1], 0.0)
        return share / float(share.sum())

    def found(self, edges: Floats, n: float) -> Far:
        """The rows of these bins, from the edge before each."""
        return Far(min(self.rows / n, _MOST), np.log2(_ends(edges)), self.shares)

    def perhaps(self, edges: Floats, std: float) -> Perhaps:
        """Rows that may be noise, or nearer than their counts say: the number of them has this std."""
        within = int(np.searchsorted(np.cumsum(self.shares), _MOSTLY))
        return Perhaps(self.rows, std, float(_ends(edges)[min(within, self.bins - 1)]))


def _ends(edges: Floats) -> Floats:
    """The far end of each bin; no row within the magnitude lies beyond the last edge."""
    return np.append(edges[1:], edges[-1])
