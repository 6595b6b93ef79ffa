"""The plan of a histogram: the counted cells, and their noise.

docs/proofs/histograms.md: [H3] sensitivity, [H4] noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from ..display.document import Document, make_table
from ..display.wording import MECHANISMS, SHOWN, column_names, format_error, people_facts
from ..errors import Floats, UsageError, shown
from ..noise import Stream
from ..noise.law import GaussianLaw, LaplaceLaw, NoiseLaw
from ..numerics.wide_integers import LOW_BITS, Ints, Wide
from ..privacy.guarantee import Privacy
from ..releases.documents import describe_groups, plan_warnings
from ..releases.histogram_release import HistogramNumbers, HistogramRelease
from ..request.people import unit_of
from ..request.request import Request
from ..row_maps.histograms import ColumnHistograms
from ..row_maps.maps import noise_units, sqrt_upper
from ..session import Session
from ..util import json_codec
from .base import WRONG, StatisticPlan
from .build import choose_plan
from .forecast import plan_facts, plan_title


@dataclass(frozen=True, repr=False)
class HistogramPlan(HistogramNumbers, StatisticPlan[HistogramRelease]):
    """Every public number of one release of the counts of bins.

    Guarantee: `release` on any data satisfies `privacy` for its neighboring relation [H3][H4].
    """

    format: ClassVar[str] = "ellipsum.histogram-plan/1"
    release_class: ClassVar[type[HistogramRelease]] = HistogramRelease
    request: Request
    privacy: Privacy
    law: NoiseLaw
    considered: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Expected error (root mean square) of each mechanism that was compared."""

    def __post_init__(self) -> None:
        # A plan may come from a file, so every construction checks that the noise gives the guarantee.
        self.check_claim()
        if self.privacy.slack or (self.neighbors == "replace" and self.n is None):
            raise UsageError(WRONG)
        l1, l2 = sensitivities(self.request)
        pure = isinstance(self.law, LaplaceLaw)
        self.law.prove(self.privacy, Fraction(l1) if pure else l2, np.empty(0, np.int64))

    @property
    def expected_squared_error(self) -> float:
        """Expected squared error of one count of each column, summed over the columns."""
        return self.d * self.count_std**2

    @property
    def expected_error(self) -> Floats:
        """Expected root mean square error of each count, one per column."""
        return np.full(self.d, self.count_std)

    @property
    def budget_error(self) -> tuple[float | None, str]:
        return self.count_std, "error of a count"

    @property
    def warning(self) -> str | None:
        """Why the result may carry no information; None if there is no reason."""
        if self.n is None or self.count_std < self.n / 2:
            return None
        return "The noise of a count is as large as half of all rows. Use more rows or a larger budget."

    @cached_property
    def row_map(self) -> ColumnHistograms:
        """[H3] The row map: each value is counted in one slot of its column."""
        edges: list[Floats] = [_kernel_edges(part) for part in self.bins.edges]
        edges += [np.arange(-0.5, cells.size) for cells in self.bins.categories]
        return ColumnHistograms(self.d, range(self.d), edges)

    @cached_property
    def _cell_of_slot(self) -> Ints:
        """For each slot of the row map, the position of its count."""
        slots, start = [], 0
        for j, cells in enumerate(self.cells):
            edges = self.bins.edges[j] if j < len(self.bins.edges) else None
            below = 0 if edges is not None and math.isinf(edges[0]) else 1
            places = np.arange(self.row_map.sizes[j]) - below
            places[-1] = -1  # missing
            slots.append(start + np.where((places >= 0) & (places < cells - 1), places, cells - 1))
            start += cells
        return np.concatenate(slots)

    def run(self, session: Session) -> HistogramRelease:
        """[H3][H4] Exact counts -> correctly rounded noisy counts -> the release."""
        stream = self.charge(session)
        sums, _ = self.sum_rows(session, self.row_map)  # of groups in the order in which they are listed
        return HistogramRelease(self, self.noisy(sums, stream), session.secure)

    def noisy(self, sums: Wide, stream: Stream) -> Floats:
        """The noisy counts of all cells, from the exact sums of groups, one in each row."""
        counts = np.zeros((len(sums.high), self.width), np.int64)
        np.add.at(counts.T, self._cell_of_slot, _whole(sums).T)
        return self.law.add(Wide.from_int64(counts), [], stream)

    def own_fields(self) -> dict[str, Any]:
        scale = self.law.scale if isinstance(self.law, LaplaceLaw) else self.law.stds(1)[0]
        return {"law": self.mechanism, "scale": float(scale)}

    @classmethod
    def from_fields(cls, fields: json_codec.Fields, request: Request, privacy: Privacy) -> Self:
        kind = fields.take("law", json_codec.word(LaplaceLaw.kind, GaussianLaw.kind))
        scale = fields.take("scale", json_codec.number)
        if request.statistic != "histogram" or request.budget is None or scale <= 0:
            raise UsageError(WRONG)
        return cls(request, privacy, LaplaceLaw(scale) if kind == LaplaceLaw.kind else GaussianLaw(scale))

    def document(self, most: int | None = None) -> Document:
        """A line for each column."""
        error = format_error(self.count_std)
        names = column_names(self.columns, self.d, most or SHOWN)
        lines = [[shown(name), f"{self.bins.sizes[j]:,}", error] for j, name in enumerate(names)]
        table = make_table(["column", "bins", "expected error of a count (RMS)"], lines, self.d)
        facts = [*plan_facts(self, MECHANISMS[self.mechanism]), *people_facts(self.people, self.statistic)]
        facts += [] if self.grouping is None else [("Groups", describe_groups(self.grouping, 0.0))]
        return Document(plan_title(self), [table], facts, plan_warnings(self))


def sensitivities(request: Request) -> tuple[int, Fraction]:
    """[H3] The L1 and L2 sensitivities of the counts of a request, rounded up."""
    assert request.d is not None
    each, twice = (
        (request.people.rows_each if request.people else None) or 1,
        2 if request.neighbors == "replace" else 1,
    )
    several = twice * request.d * (1 if request.groups is None else request.groups.max_per_person)
    return each * several, each * sqrt_upper(several)


def plan_histogram(request: Request) -> HistogramPlan:
    """[H4] Make the plan of a sized request, with the noise of smallest expected error."""
    budget, (l1, l2) = request.budget, sensitivities(request)
    assert budget is not None
    if request.noise == "knorm" and budget.pair is None:
        raise UsageError("Laplace noise needs a budget stated as epsilon= and delta=. Leave noise= out.")
    unit, plans = unit_of(request.people), []
    if budget.pair is not None and request.noise != "gaussian":
        epsilon = budget.pair[0]
        privacy = Privacy.of_pure(epsilon, request.neighbors, unit)
        plans.append(HistogramPlan(request, privacy, LaplaceLaw.least(l1, epsilon)))
    if request.noise != "knorm" and (budget.largest_mu is not None or not plans):
        privacy = Privacy(budget.mu, 0.0, request.neighbors, unit)
        plans.append(HistogramPlan(request, privacy, GaussianLaw(noise_units(l2, budget.mu))))
    return choose_plan(plans, lambda plan: plan.expected_squared_error)


def _whole(sums: Wide) -> Ints:
    """Counts of rows as 64-bit integers."""
    return (sums.high << LOW_BITS) + sums.low


def _kernel_edges(edges: Floats) -> Floats:
    """The finite edges for the row map. A value at the last edge is in the last bin."""
    finite: Floats = edges[np.isfinite(edges)]
    if math.isfinite(edges[-1]):
        finite[-1] = np.nextafter(edges[-1], np.inf)
    return finite
