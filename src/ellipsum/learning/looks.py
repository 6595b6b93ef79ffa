"""What the rounds of a last region by columns cost, and what noise they leave, from public numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .schedule import between, pure_cost, share_of_part

MOST_COLUMNS = 4
USUAL_LOOKS = 2
_USUAL_WIDTH = 5.2  # stds of normal rows between the two ends
_FEWEST_FAR, _FEWEST_GAUSSIAN = 2000.0, 250.0  # rows times epsilon, and times mu


@dataclass(frozen=True)
class Looks:
    """Shares of the budget, as rounds take them.

    rows: those of a column in units of the noise of its counts: n epsilon / d under pure noise, where a count for the
    part p of epsilon has Laplace noise of scale 2 n / (p rows); n mu / sqrt(d) under Gaussian noise, where one for the
    share s of mu^2 has noise of std sqrt(2) n / (sqrt(s) rows).
    """

    rows: float
    d: int
    pure: bool

    def serve(self, later: bool) -> bool:
        """Whether columns are clamped one by one: few of them under pure noise, one of enough rows under Gaussian.

        later: where rows are learned for releases to come, one alone.
        """
        if self.pure:
            return self.d <= (1 if later else MOST_COLUMNS)
        return self.d == 1 and self.rows >= _FEWEST_GAUSSIAN

    @property
    def look(self) -> float:
        """For a look at where the rows of every column are."""
        if self.pure:
            return share_of_part(between(120 / self.rows, 0.015, 0.08))
        return between((60 / self.rows) ** 2, 0.0005, 0.06)

    @property
    def again(self) -> float:
        """For rows elsewhere than at a point."""
        return share_of_part(0.08) if self.pure else 0.06

    @property
    def last(self) -> float:
        """For distances from the center of every column."""
        if self.pure:
            return share_of_part(between(0.33 * (1000 / self.rows) ** 0.3, 0.06, 0.4))
        return between((350 / self.rows) ** 2, 0.04, 0.3)

    @property
    def far(self) -> float:
        """For the number of rows far beyond the ends of their columns.

        Nothing for few rows under pure noise: what such a count would tell, distances tell as well.
        """
        if self.pure:
            rows = self.rows * self.d
            return share_of_part(between(600 / rows, 0.02, 0.1)) if rows >= _FEWEST_FAR else 0.0
        return 0.02

    @property
    def far_again(self) -> float:
        """For their number once more, where it may be more than noise."""
        return share_of_part(0.08) if self.pure else 0.05

    @property
    def closer(self) -> float:
        """For another look at distances, where some rows seem to be far out."""
        return share_of_part(0.3) if self.pure else 0.25

    def unit(self, left: float) -> float:
        """Noise std of a column's mean for each unit of half its width, columns alike [K2][E2]; left: of the budget."""
        if self.pure:
            return 2 * math.sqrt((self.d + 1) * (self.d + 2) / 3) / (self.rows * self.d * left)
        return 2 / (self.rows * math.sqrt(left))

    @property
    def planned(self) -> dict[str, tuple[float, int]]:
        """Rounds before the last one: their shares, and how often they come as a rule."""
        found = {"columns": (self.look, USUAL_LOOKS), "distances": (self.last, 1)}
        return {**found, "far rows": (self.far, 1)} if self.far > 0 else found

    @property
    def relative_error(self) -> float:
        """Forecast error of a mean of normal columns, in their stds."""
        cost = pure_cost if self.pure else float
        left = 1 - sum(cost(share) * times for share, times in self.planned.values())
        return _USUAL_WIDTH / 2 * self.unit(left)
