"""The plan of quantiles: the bins of every column, the noise of their distribution functions, and its errors.

docs/proofs/quantiles.md: [Q10] sensitivity, [Q11] guarantee, [Q20] exponential mechanism, [Q15] groups.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from ..display.document import Document, make_table
from ..display.wording import SHOWN, column_names, describe_size, format_error, many
from ..errors import Floats, UsageError, shown
from ..noise import Stream
from ..noise.exponential_choice import choose
from ..numerics.rounding import round_up
from ..numerics.wide_integers import LOW_BITS, Ints, Wide
from ..privacy.guarantee import Privacy
from ..releases.distribution_estimates import QuantileNumbers, form_of
from ..releases.group_release import keys_of, order_of
from ..releases.quantile_release import QuantileRelease, quantile_facts
from ..request.missing import COMPLETE
from ..request.people import unit_of
from ..request.quantiles import Quantiles
from ..request.request import Request
from ..row_maps.distributions import body_of, cumulative_matrix
from ..row_maps.histograms import ColumnHistograms
from ..row_maps.maps import Prepared, RowMap, noise_units
from ..session import Session
from ..sources.group_labels import publish_labels
from ..util import json_codec
from .base import StatisticPlan
from .build import choose_plan
from .group_plan import gaussian_slack, group_sensitivity

MOST_CDF_BINS = 2048
_LIMB_BITS = 24  # Bits of a part of a count, so that products with a matrix are exact in doubles.
_FEWEST_BINS, _MOST_BINS = 128, 1024
_FEWEST_FINE_BINS, _MOST_FINE_BINS = 1024, 16384
_LARGE_ERROR = "The noise shifts ranks by {share} of the rows. Use more rows, fewer columns or a larger budget."


@dataclass(frozen=True, repr=False)
class QuantilePlan(QuantileNumbers, StatisticPlan[QuantileRelease]):
    """Every public number of one release of quantiles.

    Guarantee: `release` on any data satisfies `privacy` for its neighboring relation [Q11][Q20].
    """

    format: ClassVar[str] = "ellipsum.quantile-plan/1"
    release_class: ClassVar[type[QuantileRelease]] = QuantileRelease
    request: Request
    privacy: Privacy
    noise_scale: float
    """Std of the Gaussian, or scale of the Laplace noise of every sum; 0 for the exponential mechanism."""
    considered: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Largest expected rank error under each mechanism that was compared."""

    def __post_init__(self) -> None:
        # A plan may come from a file, so every construction checks that the noise gives the guarantee.
        self.check_claim()
        valid = isinstance(self.request.quantiles, Quantiles)
        valid &= self.neighbors == "add_remove" or self.n is not None
        valid &= math.isfinite(self.noise_scale) and (self.noise_scale > 0) == (self.quantiles.method == "cdf")
        valid &= not self.privacy.slack or (self._selects_groups and self.mechanism == "gaussian")  # [Q15]
        valid &= len(self.privacy.pure) == (0 if self.mechanism == "gaussian" else 1)
        if not valid:
            raise UsageError("Invalid plan file: the parts do not match. Create a new plan.")
        if self.noise_scale:
            self.law.prove(self.privacy, sensitivity(self.request, self.form), np.empty(0, np.int64))

    @property
    def _selects_groups(self) -> bool:
        """Whether groups are selected privately. Without slack, another part of the release selects them."""
        return self.grouping is not None and self.grouping.keys is None

    # Public numbers -------------------------------------------------------------------------------------

    @property
    def expected_error(self) -> Floats:
        """The largest rank error of each column, in rows."""
        errors: Floats = self.rank_error.max(axis=1)
        return errors

    @property
    def expected_squared_error(self) -> float:
        """Expected squared error of one rank of each column, summed over the columns."""
        return float(np.square(self.expected_error).sum())

    @cached_property
    def other_rank_error(self) -> float | None:
        """The largest rank error of the other method with the same budget; None if that method is not possible."""
        if self.request.budget is None:  # A part of a larger release has no budget of its own.
            return None
        other = "cdf" if self.quantiles.method == "exponential" else "exponential"
        changed = replace(self.quantiles, method=other)
        if isinstance(self.quantiles.bins, int):
            changed = replace(changed, bins=None)
        try:
            return float(plan_quantiles(replace(self.request, quantiles=changed)).rank_error.max())
        except UsageError:
            return None

    @property
    def budget_error(self) -> tuple[float | None, str]:
        return float(self.rank_error.max()), "rank error, in rows"

    @property
    def warning(self) -> str | None:
        """Why the result may carry no information; None if there is no reason."""
        size = self.n if self.grouping is None else (self.n or 0) // (self.grouping.size or 1) or None
        share = 0.0 if size is None else float(self.rank_error.max()) / size
        return _LARGE_ERROR.format(share="all" if share >= 1 else f"about {share:.0%}") if share > 0.25 else None

    # Running --------------------------------------------------------------------------------------------

    def run(self, session: Session) -> QuantileRelease:
        """[Q11] Exact histograms -> exact sums -> noise; or choices of bins [Q20]."""
        if self._selects_groups and not self.privacy.slack:
            raise UsageError("This plan is one part of a larger release. Run the plan of that release.")
        stream = self.charge(session)
        counts, sums = self.sum_rows(session, self.row_map)
        if sums is None:
            return QuantileRelease(self, self.noisy(counts, stream), session.secure)
        sums = sums.chosen(order_of(publish_labels(sums.labels, sums.kinds)))
        noisy = self.noisy(sums.sums, stream)
        if self._selects_groups:
            selected = np.flatnonzero(self.reaches(noisy))
            sums, noisy = sums.chosen(selected), noisy[selected]
        keys = keys_of(publish_labels(sums.labels, sums.kinds))
        return QuantileRelease(self, noisy, session.secure, keys=keys, kinds=sums.kinds)

    @property
    def row_map(self) -> RowMap:
        """[Q10] The row map: each value is counted in its bin, and missing values in a bin of their own."""
        above = [np.nextafter(edges[1:-1], np.inf) for edges in self.edges]
        inner = ColumnHistograms(self.d, range(self.d), above)
        missing = self.request.missing
        if missing is None or missing == "skip":
            return inner
        if missing == "drop_row":
            return Prepared(inner, np.nan, drops=True)
        lower, upper = (np.array([edges[end] for edges in self.edges]) for end in (0, -1))
        return Prepared(inner, lower / 2 + upper / 2 if missing == COMPLETE else missing)

    def noisy(self, counts: Wide, stream: Stream) -> Floats:
        """[Q11] Make the published numbers from the exact counts of groups, one group in each row."""
        ends = np.cumsum([0, *(bins + 1 for bins in self.sizes)])
        parts = [
            Wide(counts.high[:, first : last - 1], counts.low[:, first : last - 1])
            for first, last in pairwise(ends.tolist())
        ]
        if self.mechanism == "exponential":
            chosen = np.array([self._choices(g, parts, stream) for g in range(len(counts.high))], float)
            return chosen.reshape(-1, self.width)
        products = [_times(part, cumulative_matrix(self.form, part.high.shape[1])) for part in parts]
        sums = Wide(*(np.concatenate([getattr(part, limb) for part in products], axis=1) for limb in ("high", "low")))
        return self.law.add(sums, [], stream)

    def _choices(self, g: int, parts: list[Wide], stream: Stream) -> list[int]:
        """[Q20] Choose a bin for each column and quantile."""
        chosen = []
        for edges, part in zip(self.edges, parts, strict=True):
            counts = Wide(part.high[g], part.low[g]).to_ints()
            sums = np.cumsum([0, *counts], dtype=object)
            widths = np.diff(edges)
            widths[widths == 0] = np.min(widths[widths > 0], initial=1.0)  # A bin that contains the lower bound only.
            for q in self.quantiles.q:
                part_of, whole = q.as_integer_ratio()
                excess = whole * sums - part_of * sums[-1]
                costs = np.maximum(np.maximum(excess[:-1], -excess[1:]), 0).tolist()
                chosen.append(choose(widths.tolist(), costs, self._rate(q) / whole, stream))
        return chosen

    def own_fields(self) -> dict[str, Any]:
        return {"noise_scale": self.noise_scale, "rank_error": self.rank_error.tolist()}

    @classmethod
    def from_fields(cls, fields: json_codec.Fields, request: Request, privacy: Privacy) -> Self:
        fields.take("rank_error", lambda value: None)  # computed again
        return cls(request, privacy, fields.take("noise_scale", json_codec.number))

    def document(self, most: int | None = None) -> Document:
        """Rank error, number and width of bins of every column."""
        lines = [
            [
                shown(name),
                f"[{self.edges[j][0]:,.6g}, {self.edges[j][-1]:,.6g}]",
                f"{self.sizes[j]:,}",
                f"{np.diff(self.edges[j]).max():.3g}",
                format_error(float(self.rank_error[j].max())),
            ]
            for j, name in enumerate(column_names(self.columns, self.d, most or SHOWN))
        ]
        table = make_table(["column", "bounds", "bins", "widest bin", "rank error (rows)"], lines, self.d)
        facts = quantile_facts(self)
        if self.other_rank_error is not None:
            other = "cdf" if self.mechanism == "exponential" else "exponential"
            points = "" if other == "cdf" else ", points only"
            facts.append(("Other method", f"method={other!r}: rank error {self.other_rank_error:.3g} rows{points}"))
        title = f"Plan for differentially private quantiles of {many(self.d, 'column')}"
        warnings = [self.warning] if self.warning else []
        return Document(f"{title} ({describe_size(self)}; no data read)", [table], facts, warnings)


# Planning -----------------------------------------------------------------------------------------------


def plan_quantiles(request: Request, is_part: bool = False) -> QuantilePlan:
    """Make the plan of a sized request: Gaussian or Laplace noise, with the smaller rank error; or choices of bins.

    is_part: a larger release selects the groups that are not listed.
    """
    budget, groups, quantiles = request.budget, request.groups, request.quantiles
    assert budget is not None
    assert quantiles is not None
    if request.error_weights not in (None, "relative", "equal"):
        raise UsageError(
            "error_weights are not for quantiles: the rank error of every column is the same. Leave them out."
        )
    slack = 0.0 if groups is None or is_part else gaussian_slack(groups, budget)
    if quantiles.method == "exponential":
        if slack or budget.pair is None:
            raise UsageError("method='exponential' needs a budget of epsilon= and, in groups, keys. Use method='cdf'.")
        request = replace(request, quantiles=quantiles.with_bins(_fine_bins(request.n)))
        return QuantilePlan(request, _pure(request), 0.0)
    plans = []
    if budget.largest_mu is not None and request.noise in ("auto", "gaussian"):
        mu = budget.after_slack(slack).mu
        sized = replace(request, quantiles=quantiles.with_bins(_MOST_BINS))
        privacy = Privacy(mu, slack, request.neighbors, unit_of(request.people))
        plans.append(QuantilePlan(sized, privacy, noise_units(sensitivity(sized, form_of(sized, False)), mu)))
    if budget.pair is not None and not slack and request.noise != "gaussian":
        sized = replace(request, quantiles=quantiles.with_bins(_tree_bins(request, budget.pair[0])))
        scale = round_up(sensitivity(sized, "tree") / Fraction(budget.pair[0]))
        plans.append(QuantilePlan(sized, _pure(sized), scale))
    if not plans:
        raise UsageError(
            "This noise cannot have this budget: Laplace noise needs epsilon=, Gaussian noise needs delta > 0."
        )
    return choose_plan(plans, lambda plan: float(plan.rank_error.max()) ** 2)


def _pure(request: Request) -> Privacy:
    assert request.budget is not None
    assert request.budget.pair is not None
    return Privacy.of_pure(request.budget.pair[0], request.neighbors, unit_of(request.people))


def _tree_bins(request: Request, epsilon: float) -> int:
    """The number of bins for Laplace noise: 1,024 bins need twice the noise of 128.

    Gaussian noise is only 19% larger for 1,024 bins than for 256, so it always uses the most bins.
    """
    if request.n is None:
        return _MOST_BINS
    bins = 2 * request.n * epsilon / (3 * math.sqrt(request.d or 1))
    return int(np.clip(2 ** round(math.log2(bins)), _FEWEST_BINS, _MOST_BINS))


def _fine_bins(n: int | None) -> int:
    """The number of bins such that a bin is narrower than the distance of neighboring values."""
    if n is None:
        return _MOST_FINE_BINS
    return int(np.clip(2 ** round(math.log2(8 * n)), _FEWEST_FINE_BINS, _MOST_FINE_BINS))


def sensitivity(request: Request, form: str) -> Fraction:
    """[Q10][Q15] The L2 sensitivity of the sums of all columns, or the L1 sensitivity for the tree; rounded up."""
    quantiles, groups = request.quantiles, request.groups
    assert quantiles is not None
    assert request.d is not None
    sizes = [edges.size - 1 for edges in quantiles.edges(request.bounds, request.d)]
    if max(sizes) > MOST_CDF_BINS:
        raise UsageError(f"bins has more than {MOST_CDF_BINS:,} bins, the most for method='cdf'. Use fewer.")
    body = body_of(form, sizes)
    if groups is None:
        return body.sensitivity(request.neighbors, rows_each=request.people.rows_each if request.people else None)
    if form != "tree":
        return group_sensitivity(body, 0, request.neighbors, groups.max_per_person)
    alone = max(body.diameter, 2 * body.norm) if request.neighbors == "replace" else body.norm
    return groups.max_per_person * alone


def _times(counts: Wide, matrix: Floats) -> Wide:
    """The exact product of every row of 64-bit counts with the matrix."""
    whole, mask = (counts.high << LOW_BITS) + counts.low, (1 << _LIMB_BITS) - 1
    total = Wide.zeros(whole.shape[0] * len(matrix))
    for shift in range(0, 63, _LIMB_BITS):
        product: Ints = ((whole >> shift & mask).astype(float) @ matrix.T).astype(np.int64)  # below 2^53: exact
        total = total + Wide.from_int64(product.reshape(-1)).split(-shift)[0]
    shape = whole.shape[0], len(matrix)
    return Wide(total.high.reshape(shape), total.low.reshape(shape))
