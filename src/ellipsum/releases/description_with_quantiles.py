"""Count, mean, standard deviation and quantiles of every column, from one release of two parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..display.document import Background, Document
from ..display.wording import LEVEL, QUANTILE_MECHANISMS, SHOWN, describe_guarantee, describe_size, many
from ..errors import Floats, UsageError, choice
from ..util import json_codec
from .base import DOCTORED
from .decode import Counts
from .description import STATED, Description, frame_of_statistics
from .distribution_estimates import QuantileNumbers
from .group_release import GroupDescription, Tabular, table_of_numbers
from .numbers import GroupNumbers, PublicNumbers, VectorNumbers, of_part
from .quantile_release import QuantileRelease

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from ..display.plots.strips import Sheet

DESCRIBED = "count, mean, standard deviation and quantiles"
_PARTS = "half of the budget for the quantiles, half for counts, means and standard deviations"


class DescriptionNumbers(PublicNumbers):
    """The public numbers of both parts."""

    moments: VectorNumbers | GroupNumbers
    """The part with counts, means and standard deviations."""
    quantile_plan: QuantileNumbers


@dataclass(frozen=True, repr=False)
class DescriptionWithQuantiles(Tabular):
    """Count, mean, standard deviation and quantiles of every column; with `by`, of every group.

    `moments` is the part with counts, means and standard deviations. `quantile_release` is the part with the whole
    distribution function. Both can be used at no further privacy cost.
    """

    plan: DescriptionNumbers
    quantile_sums: Floats = field(kw_only=True)
    """(groups, width): the noisy sums of the quantiles; one row without by."""
    keys: NDArray[np.object_] | None = field(default=None, kw_only=True)
    """(groups, columns of by), or None without by."""
    kinds: tuple[str, ...] = field(default=(), kw_only=True)
    """How the columns of the keys are compared."""

    @cached_property
    def moments(self) -> Description | GroupDescription:
        """Counts, means and standard deviations."""
        plan = self.plan.moments
        if isinstance(plan, VectorNumbers):
            return Description(plan, self.noisy, self.secure, privacy_spent=self.privacy)
        assert self.keys is not None
        return GroupDescription(plan, self.noisy, self.secure, self.keys, self.kinds, privacy_spent=self.privacy)

    @cached_property
    def quantile_release(self) -> QuantileRelease:
        """The distribution functions: further quantiles, shares, intervals and bands."""
        plan, sums = self.plan.quantile_plan, self.quantile_sums
        return QuantileRelease(plan, sums, self.secure, self.keys, self.kinds, privacy_spent=self.privacy)

    count: ClassVar[Floats] = of_part("moments", "count")
    """The number of non-missing values of each column, noisy."""
    counts: ClassVar[Counts | Floats | None] = of_part("moments", "counts")
    """Noisy counts beside the values: of each column, or of each group."""
    value: ClassVar[Floats] = of_part("moments", "value")
    """The means."""
    mean: ClassVar[Floats] = of_part("moments", "mean")
    std: ClassVar[Floats] = of_part("moments", "std")
    """Population standard deviations; 0 where noise leaves nothing."""
    std_error: ClassVar[Floats] = of_part("moments", "std_error")
    """Root mean square error of each standard deviation."""
    noise_std: ClassVar[Floats] = of_part("moments", "noise_std")
    """Standard deviation of the noise of each mean."""
    standard_error: ClassVar[Floats] = of_part("moments", "standard_error")
    """Standard error of each mean."""
    quantiles: ClassVar[Floats] = of_part("quantile_release", "value")
    """(columns, quantiles); with by, (groups, columns, quantiles)."""
    q: ClassVar[Floats] = of_part("quantile_release", "q")
    """The probabilities of `quantiles`."""

    @property
    def covariance(self) -> Floats:
        """(d, d) population covariances, with covariance=True."""
        return self._one_vector().covariance

    @property
    def correlation(self) -> Floats:
        """(d, d) correlations, with covariance=True."""
        return self._one_vector().correlation

    def _one_vector(self) -> Description:
        if not isinstance(self.moments, Description):
            raise UsageError("A release in groups has no covariances.")
        return self.moments

    def confidence_interval(self, level: float = LEVEL, of: str = "mean", *, target: str = "data") -> Floats:
        """(..., 2) bounds for the "count", "mean", "std" or "quantiles" of each column, each covering at `level`.

        target: "population" adds the sampling error of means and quantiles, for rows that are a random sample.
        """
        if choice("of", of, (*STATED, "quantiles")) == "quantiles":
            return self.quantile_release.confidence_interval(level, target=target)
        return self.moments.confidence_interval(level, of, target=target)

    @property
    def warnings(self) -> tuple[str, ...]:
        return (*self.moments.warnings, *self.quantile_release.warnings)

    # Shown and saved ------------------------------------------------------------------------------------

    def to_pandas(self) -> pandas.DataFrame:
        """A column for each column of the data, laid out as by pandas' `describe`; with by, a row for each group."""
        if self.keys is not None:
            return super().to_pandas()
        parts = zip(self._percents, self.quantiles.T, strict=True)
        frame = frame_of_statistics(self, {**self._one_vector().statistics(), **dict(parts)})
        return self._with_facts(frame)  # type: ignore[no-any-return]

    def to_arrow(self) -> pyarrow.Table:
        """One row for each group: the columns of `GroupDescription.to_arrow`, and quantiles with 95% intervals."""
        import pyarrow as pa

        if not isinstance(self.moments, GroupDescription):
            parts = {**self.moments.statistics(), **dict(zip(self._percents, self.quantiles.T, strict=True))}
            columns = np.array(list(parts.values())).T
            return pa.table([list(parts), *map(pa.array, columns)], names=["statistic", *self.names()])
        table, intervals = self.moments.to_arrow(), self.confidence_interval(LEVEL, "quantiles")
        for (j, name), (i, percent) in product(enumerate(self.names()), enumerate(self._percents)):
            title = f"{name}_{percent}"
            parts = {title: self.quantiles, f"{title}_low": intervals[..., 0], f"{title}_high": intervals[..., 1]}
            for heading, values in parts.items():
                table = table.append_column(heading, pa.array(np.ascontiguousarray(values[:, j, i])))
        return table

    @property
    def _percents(self) -> list[str]:
        return [f"{100 * q:.12g}%" for q in self.q.tolist()]

    def to_dict(self) -> dict[str, Any]:
        quantiles = self.quantile_release.to_dict()
        part = {name: quantiles[name] for name in ("q", "value", "rank_error", "interval")}
        moments = self.moments.to_dict()
        whole = {"privacy": self.privacy.to_dict(), "warnings": list(self.warnings), "plan": self.plan.to_dict()}
        return {**moments, **whole, "quantiles": part, "quantile_sums": self.quantile_sums.tolist()}

    @classmethod
    def own_fields(cls, fields: json_codec.Fields, plan: DescriptionNumbers) -> dict[str, Any]:
        quantile_sums = fields.take("quantile_sums", table_of_numbers)
        if not isinstance(plan.moments, GroupNumbers):
            return {"noisy": fields.take("noisy", json_codec.numbers), "quantile_sums": quantile_sums}
        own = GroupDescription.own_fields(fields, plan.moments)
        if own.pop("shrinks"):
            raise UsageError(DOCTORED)
        return {**own, "quantile_sums": quantile_sums.reshape(-1, plan.quantile_plan.width)}

    def check(self) -> None:
        """Raise an error if a part from a file cannot come from its plan."""
        self.moments.check()
        groups = 1 if self.keys is None else len(self.keys)
        if self.quantile_sums.shape != (groups, self.plan.quantile_plan.width):
            raise UsageError(DOCTORED)

    def sheet(self, order: str = "given", columns: Sequence[str] | None = None) -> Sheet:
        return self.moments.sheet(order, columns)

    def document(self, most: int | None = None) -> Document:
        """Counts, means and standard deviations in one table, quantiles in another."""
        plan, document = self.plan, self.moments.document(most)
        groups = "" if self.keys is None else f" in {many(len(self.keys), 'group')}"
        size = f" ({describe_size(plan)})" if self.keys is None else ""
        quantiles = replace(self.quantile_release.table(most or 3 * SHOWN), title="Quantiles")
        return Document(
            f"Differentially private {DESCRIBED} of {many(plan.d, 'column')}{groups}{size}",
            [*document.tables, quantiles],
            description_facts(plan, document),
            [*([plan.warning] if plan.warning else []), *self.warnings],
        )

    def background(self) -> Background:
        moments = self.moments.background()
        return replace(
            moments,
            privacy=self.privacy,
            stated=self.stated,
            mechanism=[*moments.mechanism, f"Quantiles: {QUANTILE_MECHANISMS[self.plan.quantile_plan.mechanism]}."],
            recipe=super().background().recipe,
            side_releases=[*moments.side_releases, f"Quantiles are a part of this release: {_PARTS}."],
            picture=self.quantile_release.svg,
        )


def description_facts(plan: DescriptionNumbers, moments: Document) -> list[tuple[str, str]]:
    """Facts about all columns of a release, or of its plan. moments: the document of the part with the means."""
    return [
        ("Privacy", describe_guarantee(plan.privacy, plan.stated)),
        ("Parts", _PARTS),
        ("Quantiles", QUANTILE_MECHANISMS[plan.quantile_plan.mechanism]),
        *[(name, text) for name, text in moments.facts if name != "Privacy"],
    ]
