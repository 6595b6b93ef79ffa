"""Shares of the budget for the rounds of `auto`, from public numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

RESOLUTION = 2.0**-40
PURE_PART = 0.25
"""Rounds with pure noise: a share s of mu^2 stands for this times sqrt(s) of epsilon, and a large one for itself."""


def pure_cost(share: float) -> float:
    """The part of epsilon that a round of this share takes [L8]."""
    return max(PURE_PART * math.sqrt(share), share)


def share_of_part(part: float) -> float:
    """The share whose round takes this part of epsilon."""
    return part if part > PURE_PART**2 else (part / PURE_PART) ** 2


def between(value: float, low: float, high: float) -> float:
    """The value, or the bound that it is beyond."""
    return min(max(value, low), high)


_PURE_ERROR = 1.4
_PURE_NORMS = 0.18  # the last histogram, for one column: Laplace noise hides tails that Gaussian noise does not
_CELLS, _MOST_CELLS = 1 << 24, 1 << 26  # of a sample in memory: as a rule, and where small budgets ask for more rows
_LEAST_ROWS = 20_000
_LEAST_NOISE_ROWS = 5000.0
_LEAST_PER_COLUMN = 1000.0  # noise rows for each sqrt(d): shares of early rounds are at their floors with a quarter
_STAND_OUT, _JUST_STAND_OUT = 9.0, 6.0  # stds of noise that all rows of a column are: wanted, and the least
_MOST_SIZES = 0.2
_FAR_ROWS, _FAR_SHARE = 700.0, 0.015  # rows, in units of the noise, of which 2% in a bin stand out; the share for it
_FAR_COUNT, _FAR_COLUMNS = 0.01, 20  # for the number of far rows; columns beyond which a few of them matter less
_KEPT = 0.2  # of the budget, for the last histogram, where rows are learned for later releases
_TURN = 2.0  # noise of second moments against an even spectrum: d sqrt(d) over the rows, about
MOST_PASSES = 6
"""Passes over all rows: a count, the sample, second moments, the last norms, the shell, the release; where few columns
are clamped a count, the sample, distances, far rows, distances again, the release."""


def sample_rows(d: int, noise_rows: float) -> float | None:
    """How many rows early rounds ask for, or None where memory would not hold them; noise_rows: those of one row."""
    least = max(_LEAST_NOISE_ROWS, _LEAST_PER_COLUMN * math.sqrt(d)) / noise_rows
    wanted = max(_CELLS / d, least, _LEAST_ROWS)
    return wanted if wanted * d <= _MOST_CELLS else None


def sample_rate(n: float, wanted: float) -> float:
    """The part of n rows that is drawn: all, unless that is more than twice as many as are wanted."""
    return wanted / n if n > 2 * wanted else 1.0


@dataclass(frozen=True)
class Shares:
    """Shares of mu^2 for each kind of round.

    rows: the number of rows in units of the noise (n mu); kappa: relative noise of a mean, sqrt(d) / rows.
    """

    rows: float
    kappa: float
    norms: float
    final_norms: float
    ball: float
    scales: float
    center: float
    probe: float
    covariance: float
    count: float
    columns: float
    pure: bool = False

    @staticmethod
    def of(rows: float, d: int, pure: bool = False) -> Shares:
        kappa = math.sqrt(d) / rows
        least = max(_PURE_NORMS / d if pure else 0.0, 0.0055)
        return Shares(
            rows=rows,
            kappa=kappa,
            norms=between(((26 + 11 / d) / rows) ** 2, 0.0005, 0.033 + 0.007 / d),
            final_norms=between(
                max((75 * (1 + 1 / d) / rows) ** 2, 0.055 / math.sqrt(d), min((_FAR_ROWS / rows) ** 2, _FAR_SHARE)),
                least,
                0.05 + 0.25 / d,
            ),
            ball=between((5.9 * kappa) ** 2, 0.001, 0.04),
            scales=between((7 * kappa) ** 2, 0.002, 0.06),
            center=between((11.7 * kappa) ** 2, 0.01, 0.12),
            probe=between((3 * d / rows) ** 2, 0.003, 0.01),
            covariance=between((_TURN * kappa * d) ** 2, 0.005, 0.06),
            count=between((100 / rows) ** 2, 0.0005, 0.01),
            columns=between((70 * kappa) ** 2, 0.0005, 0.04),
            pure=pure,
        )

    def for_later(self) -> Shares:
        """Where rows are learned for releases to come: more for the law of norms, which decides where those clip."""
        return replace(self, final_norms=_KEPT)

    def thinned(self, rate: float, d: int) -> Shares:
        """Shares for rounds that read a part of the rows."""
        return Shares.of(self.rows * rate, d, self.pure)

    def unit(self, share: float) -> float:
        """Noise std of a clipped mean for each unit of its radius."""
        return 2 / (self.rows * (pure_cost(share) / PURE_PART if self.pure else math.sqrt(share)))

    @property
    def far_count(self) -> float:
        """Beside the last histogram of norms, for the number of far rows; pure rounds do not count them."""
        return 0.0 if self.pure else _FAR_COUNT * min(1.0, _FAR_COLUMNS / self._width)

    @property
    def _width(self) -> float:
        """The number of columns."""
        return (self.kappa * self.rows) ** 2

    @property
    def step(self) -> float:
        """For a center that the next step finds again: less, where it would be a large share."""
        return min(self.center, max(self.scales, 0.01))

    @property
    def shrink(self) -> float:
        """Error of a ball round as a fraction of its radius."""
        return 2 * self.kappa / math.sqrt(self.ball)

    @property
    def readable(self) -> bool:
        """Whether a histogram of all rows can be told from its noise."""
        return self.rows >= 25

    @property
    def hopeful(self) -> bool:
        """Whether a ball round shrinks the ball."""
        return self.readable and self.shrink < 0.8

    @property
    def _told_apart(self) -> bool:
        """Whether histograms of all columns at once stand out of their noise."""
        return math.sqrt(2) * self.kappa < 0.06 * math.sqrt(self.columns)

    def by_columns(self, relative: bool) -> bool:
        """Whether to search column by column: in units of their own, or where it costs no more than balls do."""
        return self._told_apart and (relative or self.columns < 1.5 * (self.ball + self.norms))

    @property
    def sizes(self) -> float | None:
        """For octaves of all columns at once, one look and no closer one; None where they would drown in noise."""
        each = math.sqrt(2) * self.kappa
        share = min((_STAND_OUT * each) ** 2, _MOST_SIZES)
        return share if math.sqrt(share) > _JUST_STAND_OUT * each else None

    @property
    def reliable(self) -> bool:
        """Whether the rounds find what they look for but for rare accidents."""
        return self.hopeful and self.rows >= 40

    @property
    def relative_error(self) -> float:
        """Forecast error of a mean, in units of the rows' root mean square distance; less for uneven columns."""
        return (_PURE_ERROR if self.pure else 2.2 + 4 / self._width) * self.kappa

    @property
    def finest(self) -> float:
        """The least spread, as a share of the ball of the magnitude, that the search for the center can reach."""
        if not self.hopeful:
            return 1.0
        rounds = int(0.4 / (self.ball + self.norms))
        return max(RESOLUTION, self.shrink**rounds)
