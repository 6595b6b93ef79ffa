"""The plan of two laws in one release: which columns have pure noise in blocks, and how the budget is shared.

docs/proofs/plans.md [U9]. Imported only where columns differ so much that it may pay.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats
from ..noise.block_law import Blocks, choose_blocks
from ..noise.law import BoxLaw
from ..noise.mixed_law import MixedLaw
from ..numerics.wide_integers import Ints
from ..privacy.budget_split import mu_beside, splits
from ..privacy.guarantee import Privacy
from ..regions.ellipsoid import Clip
from ..request.people import unit_of
from ..row_maps.auxiliary_counts import Riders, free_units
from ..row_maps.grid import clamp_limits, noise_units
from ..row_maps.maps import body_without, clamped_moves
from .build import (
    Draft,
    Terms,
    draft,
    finished,
    importances_of_all,
    weighted_error,
)
from .plan import Plan

MOST_PURE = 64
"""So many columns at most have pure noise beside Gaussian: a block pays the square of its size."""
_WORTH = 0.9  # of the least squared error of a single law
_WIDEST_COUNT = 2.0**20


@dataclass(frozen=True)
class Split:
    """Which coordinates are apart, under pure noise, and what is spent on them and beside them."""

    apart: NDArray[np.bool_]
    first: float
    mu: float


def mixed(terms: Terms, gaussian: Plan, best: float) -> Plan | None:
    """The plan of both laws, where its squared error is at least a tenth below the best of a single one."""
    found = Search(terms, gaussian).least(_WORTH * best)
    if found is None:
        return None
    plan = _laid(terms, gaussian, found)
    return plan if plan is not None and weighted_error(terms, plan) <= _WORTH * best else None


class Search:
    """Forecasts of splits, from the Gaussian plan's own: k of the widest columns, and a share of epsilon."""

    def __init__(self, terms: Terms, gaussian: Plan) -> None:
        self._terms, self._plan = terms, gaussian
        moves = np.array(coordinate_moves(terms, gaussian.riders, gaussian.count_units > 0))
        weights = importances_of_all(terms, gaussian.riders, gaussian.count_units)
        self.moves, self.weights = moves, weights
        self.sizes = np.sqrt(weights) * moves
        self.columns = np.argsort(-self.sizes[: terms.d], kind="stable")

    def least(self, most: float) -> Split | None:
        """The split of least forecast error, proved; None where all are above `most`."""
        assert self._terms.budget.pair is not None
        epsilon, delta = self._terms.budget.pair
        firsts, mus = splits(epsilon, delta)
        best: tuple[float, NDArray[np.bool_], float] | None = None
        for k in self._counts():
            apart = self._apart(k)
            blocks = choose_blocks(np.where(apart, self.moves, 0.0), np.where(apart, self.weights, 0.0), 1.0)
            errors = blocks.error / firsts**2 + self._beside(apart) / mus**2
            place = int(np.argmin(errors))
            if best is None or errors[place] < best[0]:
                best = float(errors[place]), apart, float(firsts[place])
        if best is None or best[0] > most:
            return None
        mu = mu_beside(best[2], epsilon, delta)
        return None if mu is None else Split(best[1], best[2], mu)

    def _counts(self) -> Iterator[int]:
        """Numbers of columns that are tried: a geometric row, and where sizes fall off most."""
        sizes = self.sizes[self.columns[: MOST_PURE + 1]]
        most = min(MOST_PURE, int(np.count_nonzero(sizes > 0)), self._terms.d - 1)
        if most < 1:
            return
        tried = set(np.geomspace(1, most, 12).round().astype(int).tolist())
        falls = sizes[1 : most + 1] / sizes[:most]
        yield from sorted(tried | {int(np.argmin(falls)) + 1})

    def _apart(self, k: int) -> NDArray[np.bool_]:
        """The k widest columns with their absences; counts that columns share, where these are as wide.

        Counts of cells outside stay with the Gaussian: hardly anything in l2, and a coordinate more in blocks.
        """
        chosen = np.zeros(self._terms.d, bool)
        chosen[self.columns[:k]] = True
        apart: NDArray[np.bool_] = self._with_counts(chosen) & (self.sizes > 0)
        return apart

    def _with_counts(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        riders, d = self._plan.riders, self._terms.d
        parts = [chosen]
        parts += [chosen] if len(riders.absences) == d and riders.missing == "column" else []
        parts += [self._wide_enough(d, chosen)] if riders.missing == "row" else []
        parts += [np.zeros(d, bool)] if riders.outside else []
        parts += [self._wide_enough(-1, chosen)] if self._plan.count_units else []
        return np.concatenate(parts)

    def _wide_enough(self, place: int, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return np.array([self.sizes[place] >= float(self.sizes[: self._terms.d][chosen].min())])

    def _beside(self, apart: NDArray[np.bool_]) -> float:
        """The squared error of the other coordinates at mu = 1: that of the Gaussian plan, by what is left of it."""
        counted, sizes = self._priced, self.sizes
        left = float(sizes[counted & ~apart].sum()) + self._outside(apart[: self._terms.d])
        left /= float(sizes[counted].sum())
        return left**2 * weighted_error(self._terms, self._plan) * self._terms.budget.mu**2

    def _outside(self, chosen: NDArray[np.bool_]) -> float:
        """The sizes of counts of cells outside, of columns that are apart."""
        start = self._terms.d + len(self._plan.riders.absences)
        return float(self.sizes[start:][: chosen.size][chosen].sum()) if self._plan.riders.outside else 0.0

    @cached_property
    def _priced(self) -> NDArray[np.bool_]:
        """Values and the count of rows: other counts are free beside these in l2, or nearly."""
        priced = np.zeros(self.sizes.size, bool)
        priced[: self._terms.d] = True
        priced[-1] |= self._plan.count_units > 0
        return priced


def coordinate_moves(terms: Terms, riders: Riders, counted: bool) -> list[float]:
    """How far each coordinate of the sum moves between neighbors, in units of its own: a count by one."""
    lower, upper = terms.rows.bounds()
    wide = upper - lower if terms.neighbors == "replace" else (upper - lower) / 2
    live = [1.0 if unit else 0.0 for unit in riders.units.tolist()]
    return [*wide.tolist(), *live, *([1.0] if counted else [])]


def _laid(terms: Terms, gaussian: Plan, split: Split) -> Plan | None:
    """The plan of a split."""
    d, values = terms.d, split.apart[: terms.d]
    region, left = _region(terms, gaussian, values)
    made = draft(terms, region, 1.0 if gaussian.count_units else 0.0, max(split.mu / left, split.first))
    limits = clamp_limits(terms.rows, region.ellipsoid, made.bits)
    made = _counted(terms, made, split.apart, limits, left)
    moves = clamped_moves(limits, made.riders, terms.neighbors) + ([made.count_units] if made.count_units else [])
    if len(moves) != split.apart.size:
        return None
    apart = split.apart & (np.array(moves, float) > 0)
    widths = np.array(coordinate_moves(terms, made.riders, made.count_units > 0))
    blocks = _blocks(widths, importances_of_all(terms, made.riders, made.count_units), apart, split.first)
    law = BoxLaw.least(blocks, moves)
    places = frozenset(blocks.columns)
    body = body_without(limits, made.riders, places)
    last = 0 if d + made.riders.width in places else made.count_units
    needed = max(body.sensitivity(terms.neighbors, last), Fraction(1))
    privacy = Privacy(split.mu, 0.0, terms.neighbors, unit_of(terms.people), (split.first,))
    return finished(terms, made, privacy, MixedLaw(law, noise_units(needed, split.mu)), 0.0)


def _blocks(widths: Floats, weights: Floats, apart: NDArray[np.bool_], epsilon: float) -> Blocks:
    """[K2] for the coordinates that are apart."""
    live = np.where(apart, np.maximum(weights, 1e-12 * float(weights[apart].max())), 0.0)
    return choose_blocks(np.where(apart, widths, 0.0), live, epsilon)


def _region(terms: Terms, gaussian: Plan, apart: NDArray[np.bool_]) -> tuple[Clip, float]:
    """The Gaussian plan's region with columns apart all as wide as each other on the grid; how long the others are.

    Columns of a block share one scale of noise; the others' ellipsoid is best for any number of them [E2].
    """
    lower, upper = terms.rows.bounds()
    half, scale = (upper - lower) / 2, gaussian.ellipsoid.scale.copy()
    squares = (scale * half) ** 2
    scale[apart] = math.sqrt(float(squares[apart].sum()) / np.count_nonzero(apart)) / half[apart]
    ellipsoid = replace(gaussian.ellipsoid, scale=scale * (1 - 2.0**-40))
    clip = Clip(ellipsoid, None, gaussian.sum_clipping_error, gaussian.center_spread)
    return clip, math.sqrt(float(squares[~apart].sum())) or 1.0


def _counted(terms: Terms, made: Draft, apart: NDArray[np.bool_], limits: Ints, left: float) -> Draft:
    """The draft with counts that are apart as far as values move, and those beside as far as they are worth."""
    riders, values = made.riders, apart[: terms.d]
    move = int(limits[values].max()) * (2 if terms.neighbors == "replace" else 1)
    beside = _units_beside(terms, made, values, left)
    start = terms.d + len(riders.absences)
    own = apart[terms.d : start].tolist()
    absences = tuple(move if unit and out else unit for unit, out in zip(riders.absences, own, strict=True))
    if riders.missing == "row" and riders.absences[0] and not own[0]:
        free = 3.0 if terms.neighbors == "replace" else 1.0
        absences = (max(1, free_units(free * float(np.sum(limits[~values].astype(float) ** 2)), 0)),)
    outside = tuple(
        unit if not out else worth
        for unit, out, worth in zip(riders.outside, values.tolist(), beside[start:], strict=False)
    )
    last = made.count_units and (move if apart[-1] else beside[-1])
    return replace(made, riders=replace(riders, absences=absences, outside=outside), count_units=last)


def _units_beside(terms: Terms, made: Draft, apart: NDArray[np.bool_], left: float) -> list[int]:
    """[U2] For each coordinate its units beside the Gaussian's values: in l2 their squares are as their sizes."""
    weights = importances_of_all(terms, made.riders, made.count_units)
    sizes = np.sqrt(weights) * np.array(coordinate_moves(terms, made.riders, made.count_units > 0))
    others = float(sizes[: terms.d][~apart].sum())
    kappas = left * np.sqrt(sizes / others) if others > 0 else np.ones(sizes.size)
    return [max(1, round(math.ldexp(kappa, made.bits))) for kappa in np.minimum(kappas, _WIDEST_COUNT).tolist()]
