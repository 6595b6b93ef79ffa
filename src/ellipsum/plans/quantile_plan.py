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
from numpy.typing import NDArray

from ..display.document import Document, make_table
from ..display.wording import SHOWN, describe_size, format_error, many
from ..errors import Floats, UsageError, shown
from ..noise import Stream, shift_for
from ..noise.exponential_choice import choose
from ..noise.laplace import LaplaceLaw
from ..noise.law import GaussianLaw, NoiseLaw
from ..numerics.rounding import round_down, round_up
from ..numerics.wide_integers import LOW_BITS, Ints, Wide
from ..privacy.gaussian_curve import normal_isf_upper
from ..privacy.guarantee import Privacy
from ..releases.distribution_estimates import decoder
from ..releases.group_release import keys_of, order_of
from ..releases.quantile_release import QuantileRelease, quantile_facts
from ..request.missing import COMPLETE
from ..request.people import unit_of
from ..request.quantiles import Quantiles
from ..request.request import Request
from ..row_maps.distributions import body_of, cumulative_matrix
from ..row_maps.grid import noise_units
from ..row_maps.histograms import ColumnHistograms
from ..row_maps.maps import Prepared, RowMap, sqrt_upper
from ..session import Session
from ..sources.group_labels import published
from ..util import json_codec
from .base import StatisticPlan
from .build import choose_plan
from .group_plan import gaussian_slack, group_sensitivity

MOST_CDF_BINS = 2048
_LIMB_BITS = 24  # of counts: products with a matrix are exact in doubles
_FEWEST_BINS, _MOST_BINS = 128, 1024
_FEWEST_FINE_BINS, _MOST_FINE_BINS = 1024, 16384
_DROWNED = "The noise shifts ranks by {share} of the rows. Use more rows, fewer columns or a larger budget."


@dataclass(frozen=True, repr=False)
class QuantilePlan(StatisticPlan[QuantileRelease]):
    """One release of quantiles, before the data.

    Guarantee: `release` on any data is `privacy` for its neighboring relation [Q11][Q20].
    """

    format: ClassVar[str] = "ellipsum.quantile-plan/1"
    request: Request
    privacy: Privacy
    noise_scale: float
    """Std of the Gaussian, or scale of the Laplace noise of every sum; 0 for the exponential mechanism."""
    considered: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Largest expected rank error under each mechanism that was compared."""

    def __post_init__(self) -> None:
        # A plan may come from a file: its noise is checked against its claim every time it is made.
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
        """Whether groups are not listed; without slack another part of the release selects them."""
        return self.grouping is not None and self.grouping.keys is None

    @property
    def law(self) -> NoiseLaw:
        """The distribution of the noise of every sum."""
        return GaussianLaw(self.noise_scale) if self.privacy.mu else LaplaceLaw(self.noise_scale)

    # Public numbers -------------------------------------------------------------------------------------

    @property
    def quantiles(self) -> Quantiles:
        assert self.request.quantiles is not None
        return self.request.quantiles

    @property
    def mechanism(self) -> str:
        if self.quantiles.method == "exponential":
            return "exponential"
        return "gaussian" if self.privacy.mu else "laplace"

    @property
    def form(self) -> str:
        """Form of the matrix by which cumulative counts are published."""
        return form_of(self.request, is_pure=not self.privacy.mu)

    @cached_property
    def edges(self) -> list[Floats]:
        """The edges of every column's bins, lower and upper bound included."""
        return self.quantiles.edges(self.rows, self.d)

    @property
    def sizes(self) -> list[int]:
        """The number of bins of every column."""
        return [edges.size - 1 for edges in self.edges]

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise of every sum."""
        return float(self.law.stds(1)[0])

    @cached_property
    def rank_error(self) -> Floats:
        """(columns, quantiles): the largest root mean square error of a quantile's rank, in rows."""
        q = self.quantiles.q
        if self.mechanism == "exponential":
            return np.broadcast_to([math.sqrt(2) / float(self._rate(one)) for one in q], (self.d, len(q)))
        decoders = [decoder(self.form, bins) for bins in self.sizes]
        stds = [[math.sqrt(float(one.variance(p).max())) for p in q] for one in decoders]
        return self.noise_std * np.array(stds)

    @property
    def expected_error(self) -> Floats:
        """The largest rank error of each column, in rows."""
        errors: Floats = self.rank_error.max(axis=1)
        return errors

    @property
    def expected_squared_error(self) -> float:
        """Expected squared error of one rank of each column, added up over the columns."""
        return float(np.square(self.expected_error).sum())

    @cached_property
    def other_rank_error(self) -> float | None:
        """The largest rank error of the other method at the same budget; None where it cannot serve."""
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
        """Why a budget spent on this plan may be wasted; None if there is no reason."""
        size = self.n if self.grouping is None else (self.n or 0) // (self.grouping.size or 1) or None
        share = 0.0 if size is None else float(self.rank_error.max()) / size
        return _DROWNED.format(share="all" if share >= 1 else f"about {share:.0%}") if share > 0.25 else None

    @property
    def threshold(self) -> float:
        """A group that is not listed is published where its noisy number of values reaches this [Q15]."""
        units, shift = self._threshold_units()
        return math.ldexp(units, shift) / self._count_unit

    @property
    def _count_unit(self) -> int:
        """What one row adds to the sum of the counts of all columns."""
        return int(sum(cumulative_matrix(self.form, bins)[-1, 0] for bins in self.sizes))

    def _threshold_units(self) -> tuple[int, int]:
        assert self.grouping is not None
        shift = shift_for(self.noise_scale)
        failure = round_down(Fraction(self.privacy.slack) / self.grouping.max_per_person)
        farthest = Fraction(self.noise_scale) * sqrt_upper(self.d) * Fraction(normal_isf_upper(failure))
        return math.ceil((self._count_unit + farthest) / Fraction(2) ** shift + Fraction(self.d, 2)), shift

    def _rate(self, q: float) -> Fraction:
        """What a row of rank error costs in the exponent [Q20]."""
        return exponential_rate(self.request, self.privacy.pure[0], q)

    # Running --------------------------------------------------------------------------------------------

    def run(self, session: Session) -> QuantileRelease:
        """[Q11] Exact histograms -> exact sums -> noise; or choices among bins [Q20]."""
        groups, is_public = self.grouping, self.neighbors == "replace" and self.rows_each is None
        if self._selects_groups and not self.privacy.slack:
            raise UsageError("This plan is one part of a larger release. Run the plan of that release.")
        stream = self.charge(session, counts_rows=session.counts_first or not is_public or groups is not None)
        if groups is None:
            partial = session.total(self.row_map, is_public)
            if is_public:
                self.check_rows(partial.rows)
            counts = Wide(partial.sums.high[None], partial.sums.low[None])
            return QuantileRelease(self, self.noisy(counts, stream), session.secure)
        sums = session.total_by(self.row_map, groups.keys, is_public and self.people is None)
        sums = sums.chosen(order_of(published(sums.labels, sums.kinds)))
        noisy = self.noisy(sums.sums, stream)
        if groups.keys is None:
            kept = np.flatnonzero(self.reaches(noisy))
            sums, noisy = sums.chosen(kept), noisy[kept]
        keys = keys_of(published(sums.labels, sums.kinds))
        return QuantileRelease(self, noisy, session.secure, keys=keys, kinds=sums.kinds)

    @property
    def row_map(self) -> RowMap:
        """[Q10] Which bin each value is in, by the edges below it; missing values are in a bin of their own."""
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
        """[Q11] What is published of the exact counts of groups, one in each row."""
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

    @property
    def width(self) -> int:
        """The number of published numbers of a group."""
        if self.mechanism == "exponential":
            return self.d * len(self.quantiles.q)
        return sum(len(cumulative_matrix(self.form, bins)) for bins in self.sizes)

    def _choices(self, g: int, parts: list[Wide], stream: Stream) -> list[int]:
        """[Q20] For each column and quantile, the place of the bin that is chosen."""
        chosen = []
        for edges, part in zip(self.edges, parts, strict=True):
            counts = Wide(part.high[g], part.low[g]).to_ints()
            sums = np.cumsum([0, *counts], dtype=object)
            widths = np.diff(edges)
            widths[widths == 0] = np.min(widths[widths > 0], initial=1.0)  # a bin of the lower bound alone
            for q in self.quantiles.q:
                part_of, whole = q.as_integer_ratio()
                excess = whole * sums - part_of * sums[-1]
                costs = np.maximum(np.maximum(excess[:-1], -excess[1:]), 0).tolist()
                chosen.append(choose(widths.tolist(), costs, self._rate(q) / whole, stream))
        return chosen

    def reaches(self, noisy: Floats) -> NDArray[np.bool_]:
        """Whether groups that are not listed may be published, from their noisy sums [Q15]."""
        units, shift = self._threshold_units()
        places = np.cumsum([len(cumulative_matrix(self.form, bins)) for bins in self.sizes]) - 1
        reached: NDArray[np.bool_] = np.ldexp(noisy[:, places], -shift).sum(axis=1) >= units
        return reached

    def own_fields(self) -> dict[str, Any]:
        return {"noise_scale": self.noise_scale, "rank_error": self.rank_error.tolist()}

    @classmethod
    def from_fields(cls, fields: json_codec.Fields, request: Request, privacy: Privacy) -> Self:
        fields.take("rank_error", lambda value: None)  # computed again
        return cls(request, privacy, fields.take("noise_scale", json_codec.number))

    @property
    def release_class(self) -> type[QuantileRelease]:
        return QuantileRelease

    def document(self, most: int | None = None) -> Document:
        """Rank error, number and width of bins of every column."""
        names = self.columns or tuple(f"x{j + 1}" for j in range(self.d))
        lines = [
            [
                shown(name),
                f"[{self.edges[j][0]:,.6g}, {self.edges[j][-1]:,.6g}]",
                f"{self.sizes[j]:,}",
                f"{np.diff(self.edges[j]).max():.3g}",
                format_error(float(self.rank_error[j].max())),
            ]
            for j, name in enumerate(names[: most or SHOWN])
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
    """The plan of a sized request: Gaussian or Laplace noise, whichever moves ranks less; or choices among bins.

    is_part: of a larger release, which selects the groups that are not listed.
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
    """A bin for every few ranks that Laplace noise moves: 1,024 bins need twice the noise of 128.

    Gaussian noise of 1,024 bins is 19% larger than that of 256, and bounds are often much wider than the values.
    """
    if request.n is None:
        return _MOST_BINS
    wanted = 2 * request.n * epsilon / (3 * math.sqrt(request.d or 1))
    return int(np.clip(2 ** round(math.log2(wanted)), _FEWEST_BINS, _MOST_BINS))


def _fine_bins(n: int | None) -> int:
    """Bins that are narrower than the distance of neighboring rows."""
    if n is None:
        return _MOST_FINE_BINS
    return int(np.clip(2 ** round(math.log2(8 * n)), _FEWEST_FINE_BINS, _MOST_FINE_BINS))


def form_of(request: Request, is_pure: bool) -> str:
    """The matrix: of least distances where rows are replaced, of least norms where they come, go or change groups."""
    if is_pure:
        return "tree"
    return "circulant" if request.neighbors == "replace" and request.groups is None else "skew"


def sensitivity(request: Request, form: str) -> Fraction:
    """[Q10][Q15] Of the sums of all columns: in l2, and in l1 for the tree; rounded up."""
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


def exponential_rate(request: Request, epsilon: float, q: float) -> Fraction:
    """[Q20] epsilon / (2 sensitivity) of one choice, of which there is one for each column and quantile."""
    quantiles, groups = request.quantiles, request.groups
    assert quantiles is not None
    times = 1 if groups is None else groups.max_per_person * (2 if request.neighbors == "replace" else 1)
    moves = (
        max(Fraction(q), 1 - Fraction(q)) if request.neighbors == "add_remove" or groups is not None else Fraction(1)
    )
    moves *= (request.people.rows_each if request.people else None) or 1
    choices = (request.d or 1) * len(quantiles.q) * times
    return Fraction(epsilon) / (2 * moves * choices)


def _times(counts: Wide, matrix: Floats) -> Wide:
    """The exact product of every row of counts, which 64 bits hold, with the matrix."""
    whole, mask = (counts.high << LOW_BITS) + counts.low, (1 << _LIMB_BITS) - 1
    total = Wide.zeros(whole.shape[0] * len(matrix))
    for shift in range(0, 63, _LIMB_BITS):
        product: Ints = ((whole >> shift & mask).astype(float) @ matrix.T).astype(np.int64)  # below 2^53: exact
        total = total + Wide.from_int64(product.reshape(-1)).split(-shift)[0]
    shape = whole.shape[0], len(matrix)
    return Wide(total.high.reshape(shape), total.low.reshape(shape))
