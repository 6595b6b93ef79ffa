"""The plan of a description with quantiles: two parts that are charged together and summed in one pass.

docs/proofs/quantiles.md: [Q16] both parts together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from ..display.document import Document, make_table
from ..display.wording import SHOWN, column_names, describe_size, format_error, many
from ..errors import Floats, UsageError, shown
from ..kernels.accumulate import Partial
from ..numerics.rounding import round_down, round_up, sqrt_down
from ..numerics.wide_integers import Wide
from ..privacy.budget import Budget
from ..privacy.guarantee import Privacy, compose, fits
from ..releases.description_with_quantiles import (
    DESCRIBED,
    DescriptionNumbers,
    DescriptionWithQuantiles,
    description_facts,
)
from ..releases.group_release import keys_of
from ..releases.numbers import of_part
from ..request.groups import Groups
from ..request.people import unit_of
from ..request.request import Request
from ..row_maps.histograms import SideBySide
from ..session import Session
from ..sources.group_labels import publish_labels
from ..util import json_codec
from .forecast import ForecastOfPart, VectorForecast
from .group_plan import GroupPlan, gaussian_slack, plan_groups
from .noise_selection import plan_statistic
from .plan import Plan
from .quantile_plan import QuantilePlan, plan_quantiles

SHARE = Fraction(1, 2)
"""Share of the budget for the quantiles. Compared with a release of one part alone, Gaussian noise is then sqrt 2
times as large in both parts, and Laplace noise twice as large. Another share would increase one of them further."""


@dataclass(frozen=True, repr=False)
class DescriptionPlan(DescriptionNumbers, ForecastOfPart[DescriptionWithQuantiles]):
    """Every public number of one release of counts, means, standard deviations and quantiles.

    Guarantee: `release` on any data satisfies `privacy` for its neighboring relation [Q16].
    """

    format: ClassVar[str] = "ellipsum.description-plan/1"
    release_class: ClassVar[type[DescriptionWithQuantiles]] = DescriptionWithQuantiles
    request: Request
    privacy: Privacy
    moments: Plan | GroupPlan
    """The part with counts, means and standard deviations."""
    quantile_plan: QuantilePlan

    def __post_init__(self) -> None:
        # A plan may come from a file, so every construction checks its parts against its guarantee.
        self.privacy.check_unit(self.people is not None)
        moments, quantiles = part_requests(self.request)
        bins = self.quantile_plan.quantiles.bins
        chosen = None if quantiles.quantiles is None else quantiles.quantiles.with_bins(bins)
        valid = self.moments.request == moments and chosen is not None
        valid &= self.quantile_plan.request == replace(quantiles, quantiles=chosen)
        if not valid or not fits(self.privacy, [self.moments.privacy, self.quantile_plan.privacy]):
            raise UsageError("Invalid plan file: the parts do not match. Create a new plan.")
        self._check_budget()

    def _check_budget(self) -> None:
        """Raise an error unless the guarantee of both parts is within the budget."""
        stated, privacy = self.stated, self.privacy
        if "delta" not in stated:
            within = not privacy.pure and not privacy.slack and privacy.mu <= Budget(**stated).mu
        elif privacy.mu:
            within = privacy.delta(stated["epsilon"]) <= stated["delta"]
        else:
            within = sum(map(Fraction, privacy.pure)) <= Fraction(stated["epsilon"])
            within &= privacy.slack <= stated["delta"]
        if not within:
            raise UsageError(
                "Invalid plan file: the privacy guarantee does not match the requested budget. Create a new plan."
            )

    # Public numbers -------------------------------------------------------------------------------------

    def with_groups(self, groups: Groups) -> DescriptionPlan:
        """The same plan with other grouping columns."""
        request = replace(self.request, groups=groups)
        moments = self.moments.with_groups(groups) if isinstance(self.moments, GroupPlan) else self.moments
        return replace(self, request=request, moments=moments, quantile_plan=self.quantile_plan.with_groups(groups))

    one: ClassVar[VectorForecast] = of_part("moments", "one")
    """The plan of the means, of one vector or of a group of the expected size."""

    @property
    def rank_error(self) -> Floats:
        """(columns, quantiles): the largest root mean square error of a quantile's rank, in rows."""
        return self.quantile_plan.rank_error

    @property
    def warning(self) -> str | None:
        """Why the result may carry no information; None if there is no reason."""
        return self.moments.warning or self.quantile_plan.warning

    # Running --------------------------------------------------------------------------------------------

    def run(self, session: Session) -> DescriptionWithQuantiles:
        """[Q16] Charge both parts, sum both in one pass, and add noise to each."""
        moments, quantiles = self.moments, self.quantile_plan
        self.check_data(session)
        account = session.reserve(self.privacy, self.statistic, self)
        account.charge(moments.privacy.as_pair(), "the part of the means")
        account.charge(quantiles.privacy, "the part of the quantiles")
        row_map = SideBySide([moments.one.row_map, quantiles.row_map])
        if isinstance(moments, Plan):
            partial = session.total(row_map, self.public_rows)
            first, second = _split(partial.sums, moments.row_map.width)
            noisy = moments.noisy_sums(Partial(partial.rows, first), account.stream())
            sums = Wide(second.high[None], second.low[None])
            return DescriptionWithQuantiles(
                self, noisy, session.secure, quantile_sums=quantiles.noisy(sums, account.stream())
            )
        _, all_sums = self.sum_rows(session, row_map)
        assert all_sums is not None
        first, second = _split(all_sums.sums, moments.one.row_map.width)
        places, noisy = moments.noisy_groups(replace(all_sums, sums=first), account.stream())
        chosen = replace(all_sums, sums=second).chosen(places)
        return DescriptionWithQuantiles(
            self,
            np.ldexp(noisy, -moments.one.grid_bits),
            session.secure,
            quantile_sums=quantiles.noisy(chosen.sums, account.stream()),
            keys=keys_of(publish_labels(chosen.labels, chosen.kinds)),
            kinds=chosen.kinds,
        )

    def own_fields(self) -> dict[str, Any]:
        return {"moments": self.moments.to_dict(), "quantiles": self.quantile_plan.to_dict()}

    @classmethod
    def from_fields(cls, fields: json_codec.Fields, request: Request, privacy: Privacy) -> Self:
        moments = fields.take("moments", _moments_from_dict)
        return cls(request, privacy, moments, fields.take("quantiles", QuantilePlan.from_dict))

    def document(self, most: int | None = None) -> Document:
        """The error of each part."""
        moments, quantiles = self.moments.document(most), self.quantile_plan
        lines = [
            [shown(name), f"{quantiles.sizes[j]:,}", *(format_error(float(one)) for one in quantiles.rank_error[j])]
            for j, name in enumerate(column_names(self.columns, self.d, most or SHOWN))
        ]
        heads = ["column", "bins", *(f"{100 * q:.12g}%: rank error" for q in quantiles.quantiles.q)]
        table = replace(make_table(heads, lines, self.d), title="Quantiles (errors in rows)")
        title = f"Plan for a differentially private {DESCRIBED} of {many(self.d, 'column')}"
        return Document(
            f"{title} ({describe_size(self)}; no data read)",
            [*moments.tables, table],
            description_facts(self, moments),
            [self.warning] if self.warning else [],
        )


def _split(sums: Wide, width: int) -> tuple[Wide, Wide]:
    """Split the sums of both row maps."""
    first, second = (Wide(sums.high[..., part], sums.low[..., part]) for part in (slice(width), slice(width, None)))
    return first, second


def part_requests(request: Request) -> tuple[Request, Request]:
    """The requests of both parts, without budgets."""
    moments = replace(request, budget=None, quantiles=None)
    quantiles = replace(request, statistic="quantiles", budget=None, covariance=False, error_weights=None)
    return moments, quantiles


# Planning -----------------------------------------------------------------------------------------------


def plan_description(request: Request) -> DescriptionPlan:
    """Make the plan of a sized request: the division of the budget with the smallest product of both errors."""
    plans = list(_plans(request))
    if not plans:
        raise UsageError("Gaussian noise needs delta > 0. Pass delta > 0, or noise='auto'.")
    return min(plans, key=_error)


def _plans(request: Request) -> Iterator[DescriptionPlan]:
    """Plans with Gaussian noise in both parts, and with pure differential privacy for the means."""
    budget, groups = request.budget, request.groups
    assert budget is not None
    pair, has_gaussian = budget.pair, budget.largest_mu is not None and request.noise != "knorm"
    slack = 0.0 if groups is None else gaussian_slack(groups, budget)
    if has_gaussian:
        square = Fraction(budget.after_slack(slack).mu) ** 2
        first, second = (sqrt_down(share * square) for share in (1 - SHARE, SHARE))
        within = Privacy(first, slack, request.neighbors, unit_of(request.people))
        yield _combine_privacy(request, Budget(mu=first), Budget(mu=second), within)
    if pair is not None and request.noise != "gaussian":
        first, second = (round_down(share * Fraction(pair[0])) for share in (1 - SHARE, SHARE))
        rest = 0.0 if slack or request.noise == "knorm" else pair[1]
        with suppress(UsageError) if has_gaussian else nullcontext():
            moments = Budget(epsilon=first, delta=pair[1] if slack else 0.0)
            yield _combine_privacy(request, moments, Budget(epsilon=second, delta=rest))


def _combine_privacy(request: Request, first: Budget, second: Budget, within: Privacy | None = None) -> DescriptionPlan:
    """Make a plan whose parts have these budgets. within: the guarantee of Gaussian noise in groups."""
    moments, quantiles = part_requests(request)
    moments, quantiles = replace(moments, budget=first), replace(quantiles, budget=second)
    plan = plan_statistic(moments) if request.groups is None else plan_groups(moments, within)
    plan = replace(plan, request=replace(plan.request, budget=None))
    quantile_plan = plan_quantiles(quantiles, is_part=True)
    quantile_plan = replace(quantile_plan, request=replace(quantile_plan.request, budget=None))
    privacy = compose([plan, quantile_plan])
    if not privacy.mu:  # Two pure steps compose to one step with the sum of both epsilons.
        privacy = replace(privacy, pure=(round_up(sum(map(Fraction, privacy.pure), Fraction(0))),))
    return DescriptionPlan(request, privacy, plan, quantile_plan)


def _error(plan: DescriptionPlan) -> float:
    """The product of both parts' errors; it needs no common unit."""
    squared = plan.expected_squared_error
    first = plan.moments.one.scaled_std if squared is None else math.sqrt(squared)
    return first * float(plan.rank_error.max())


def _moments_from_dict(saved: object) -> Plan | GroupPlan:
    if isinstance(saved, Mapping) and saved.get("format") == GroupPlan.format:
        return GroupPlan.from_dict(saved)
    return Plan.from_dict(saved)
