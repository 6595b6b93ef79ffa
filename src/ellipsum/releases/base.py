"""The base of all releases: a plan and noisy sums, from which estimates with their intervals follow.

docs/proofs/plans.md: [U2] counts in doubt, [U10] values within what is possible; docs/proofs/learning.md: [L11].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from ..display.checklist import EXACT
from ..display.document import Background
from ..display.recipe import request_recipe
from ..display.result import Shown
from ..display.wording import LEVEL, column_names, describe_guarantee
from ..errors import Floats, UsageError, choice, open_unit
from ..privacy.budget import Budget
from ..privacy.spherical_curve import Guarantee, guarantee_from_dict
from ..request.people import People
from ..request.request import SUMS, Request
from ..rows import Unknown
from ..util import json_codec
from ..util.atomic_files import Kept, Saved
from ..util.structural_equality import ValueEquality
from ..version import VERSION
from .decode import Decoded, MissingCounts, decode, widen
from .learning_record import Learning
from .numbers import PublicNumbers, VectorNumbers

if TYPE_CHECKING:
    import pandas

FORMAT = "ellipsum.release/3"
WRONG = "The release file has missing, unknown or wrong fields."
DOCTORED = (
    "Integrity check failed: the values, noise or privacy guarantee in this file do not match its plan. "
    "The file was modified after it was written."
)
P = TypeVar("P")
R = TypeVar("R", bound="StatisticRelease")
_OTHER_FORMAT = f"Not a release of format {FORMAT}. The file may come from another version of ellipsum."


@dataclass(frozen=True, repr=False)
class StatisticRelease(ValueEquality, Kept, Saved, Shown):
    """A published statistic: a plan and its noisy sums. Everything else follows from these."""

    plan: PublicNumbers
    """The plan that was run: every public number of this release."""
    noisy: Floats
    """The noisy sums in the plan's scaled space: values, counts beside them and, if n is private, the number of rows.
    Groups have one row each."""
    secure: bool
    """False if the noise came from the caller's generator. Such a release is not private."""
    privacy_spent: Guarantee | None = field(default=None, kw_only=True)
    """Total privacy loss if earlier steps (learning) spent budget too; else None."""
    learned: Learning | None = field(default=None, kw_only=True)
    """The steps that learned the bounds, their cost, and the possible bias of clipping to these bounds."""

    @property
    def value(self) -> Floats:
        """The estimates."""
        raise NotImplementedError

    @property
    def noise_std(self) -> Floats:
        """Standard deviation of the privacy noise."""
        raise NotImplementedError

    @property
    def standard_error(self) -> Floats:
        """Root mean square error."""
        raise NotImplementedError

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the estimates may be inaccurate, one sentence each; also raised as `AccuracyWarning`."""
        raise NotImplementedError

    def confidence_interval(self, level: float = LEVEL) -> Floats:
        """Lower and upper bounds, each covering its own number at `level`."""
        raise NotImplementedError

    @property
    def statistic(self) -> str:
        return self.plan.statistic

    @property
    def columns(self) -> tuple[str, ...] | None:
        return self.plan.columns

    @property
    def privacy(self) -> Guarantee:
        """The privacy guarantee: everything that was spent on this release."""
        return self.privacy_spent or self.plan.privacy

    @property
    def stated(self) -> Mapping[str, float]:
        """The budget as it was requested."""
        return self.plan.stated if self.learned is None else self.learned.stated

    def names(self, most: int | None = None) -> tuple[str, ...]:
        """The names of the first columns, or of all; x1, x2, ... if columns have no names."""
        return column_names(self.columns, self.plan.d, most)

    @property
    def by(self) -> tuple[str, ...]:
        """Names of the grouping columns."""
        groups = self.plan.request.groups
        return () if groups is None else tuple(map(str, groups.by))

    def background(self) -> Background:
        """Facts for the report of every release. Each kind of release adds the origin of bounds and the mechanism."""
        return Background(
            privacy=self.privacy,
            stated=self.stated,
            secure=self.secure,
            people=self.plan.people,
            origin=[],
            mechanism=[EXACT],
            recipe=request_recipe(self._stated_request),
        )

    @property
    def _stated_request(self) -> Request:
        """The request of the caller. If bounds were learned, it has the `Unknown` bounds that the caller passed."""
        request, learned = self.plan.request, self.learned
        budget = Budget(**self.stated) if self.stated else None
        if learned is None:
            return replace(request, budget=budget)
        sizes = np.unique(learned.magnitude)
        return Request(
            request.statistic,
            Unknown(float(sizes[0]) if sizes.size == 1 else learned.magnitude, method=learned.method),
            budget,
            neighbors=request.neighbors,
            people=request.people,
            groups=request.groups,
            missing=request.missing,
        )

    def _frame(self, table: Any, **how: Any) -> pandas.DataFrame:
        """A pandas frame. It has a column `secure` if the noise is not secure."""
        frame = import_pandas().DataFrame(table, **how)
        if not self.secure:
            frame["secure"] = False
        return self._with_facts(frame)

    def _with_facts(self, frame: pandas.DataFrame) -> pandas.DataFrame:
        """A pandas frame with the guarantee in its attributes."""
        guarantee = describe_guarantee(self.privacy, self.stated)
        frame.attrs.update(secure=self.secure, guarantee=guarantee, level=LEVEL, warnings=list(self.warnings))
        return frame

    def to_dict(self) -> dict[str, Any]:
        value = self.value.astype(object)
        value[np.isnan(self.value)] = None  # Columns whose bounds were not found have no value.
        return self._fields_with(
            {
                "value": value.tolist(),
                "noise_std": self.noise_std.tolist(),
                "standard_error": self.standard_error.tolist(),
                "interval": {"level": LEVEL, "bounds": self.confidence_interval(LEVEL).tolist()},
            }
        )

    def _fields_with(self, estimates: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a file: estimates, and what every release has."""
        fields = {
            "format": FORMAT,
            "version": VERSION,
            "statistic": self.statistic,
            "columns": list(self.names()),
            **estimates,
            "privacy": self.privacy.to_dict(),
            "secure": self.secure,
            "noisy": self.noisy.tolist(),
            "warnings": list(self.warnings),
            "plan": self.plan.to_dict(),
        }
        return fields if self.learned is None else {**fields, "learned": self.learned.to_dict()}

    def to_json(self) -> str:
        """The release as JSON, which `ellipsum.load` reads and checks."""
        return json_codec.dump(self.to_dict())

    @classmethod
    def own_fields(cls, fields: json_codec.Fields, plan: Any) -> dict[str, Any]:
        """Read the noisy sums, and the other fields of this kind of release, from a file."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise an error if a release from a file cannot come from its plan."""
        raise NotImplementedError

    @classmethod
    def from_plan(cls, fields: json_codec.Fields, plan: Any) -> Self:
        """Read the release of a plan from the fields of a file."""
        spent = fields.take("privacy", guarantee_from_dict)
        learned = fields.take("learned", Learning.from_dict, None)
        if learned is not None:
            each = plan.people.rows_each if plan.people is not None else None
            learned.check(spent.as_pair(), plan.privacy.as_pair(), plan.d, each or 1)
        release = cls(
            plan=plan,
            secure=fields.take("secure", json_codec.flag),
            privacy_spent=None if learned is None else spent,
            learned=learned,
            **cls.own_fields(fields, plan),
        )
        if spent != release.privacy:
            raise UsageError(DOCTORED)
        release.check()
        largest = float(release.noise_std.max(initial=0.0))
        if not fields.agree(release.to_dict(), {"value": largest}, skipped=("warnings",)):
            raise UsageError(DOCTORED)
        return release


@dataclass(frozen=True, repr=False)
class VectorRelease(StatisticRelease):
    """A statistic of one vector, or of one vector per group along a leading axis."""

    @property
    def vector_plan(self) -> VectorNumbers:
        """The plan of one vector, which the noisy sums are decoded with."""
        raise NotImplementedError

    @property
    def coverage(self) -> str:
        """What the confidence intervals account for."""
        raise NotImplementedError

    @property
    def _missing_counts(self) -> MissingCounts | None:
        return None

    @cached_property
    def decoded(self) -> Decoded:
        """The statistic and its counts, decoded from the noisy sums [U3][U6]."""
        return decode(self.vector_plan, self.noisy, self._missing_counts)

    @property
    def raw_value(self) -> Floats:
        """The estimate before it is clamped or denoised. Its noise has mean zero, so such estimates can be added up."""
        return self.decoded.value

    def _possible_value(self, value: Floats) -> Floats:
        """Clamp means of clamped values to their bounds; a column whose bounds were not found has no value [U10][L11].

        A single count is at least 0. Counts of groups may be added up, so they are published without a change.
        """
        plan = self.vector_plan
        if self.statistic == "count" and value.ndim == 1:
            value = np.maximum(value, 0.0)
        if plan.clamped and self.statistic not in SUMS:
            value = np.clip(value, *plan.rows.bounds())
        return value if self.learned is None else np.where(self.learned.found, value, np.nan)

    @property
    def _possible_range(self) -> tuple[Floats | float, Floats | float]:
        """Lower and upper limit of the statistic of any data: for counts, and for statistics of clamped values.

        Values may lie outside learned bounds, but not outside the magnitude that the caller passed.
        """
        plan = self.vector_plan
        if self.statistic == "count":
            return 0.0, np.inf
        if not plan.clamped:
            return -np.inf, np.inf
        low, high = plan.rows.bounds() if self.learned is None else (-self.learned.magnitude, self.learned.magnitude)
        if self.statistic not in SUMS:
            return low, high
        people = self.plan.people
        rows = self.plan.n if self.plan.neighbors == "replace" and (people is None or not people.rows_each) else None
        most = np.inf if rows is None else float(rows)
        with np.errstate(invalid="ignore", over="ignore"):  # a missing value adds nothing
            return np.fmin(low * most, 0.0), np.fmax(high * most, 0.0)

    @property
    def _widened_stds(self) -> Floats:
        """Noise stds. Those of a mean are larger if the count that it is divided by is uncertain [U2]."""
        return widen(self.vector_plan, self.noise_std, self.decoded.counts)

    @property
    def _center(self) -> Floats:
        """The centers of the intervals."""
        return self.raw_value

    def half_widths(self, level: float = LEVEL) -> Floats:
        """Half the width of each interval before it is clipped to the possible values; one number per column."""
        half: Floats = self.vector_plan.multiples(open_unit("level", level)) * self._widened_stds
        return half

    def confidence_interval(self, level: float = LEVEL, *, target: str = "data") -> Floats:
        """Compute confidence intervals for the statistic, one for every column, at a confidence level.

        They account for the noise of sums and counts. If rows are clipped by their norm, they also account for the
        bias that the counted rows may cause. For Box bounds they are for the clamped values, and lie within the
        bounds. `warnings` names intervals that cannot be trusted. Clipping that was not counted
        (count_clipped=False) is not accounted for.

        Parameters
        ----------
        level : float, default 0.95
            Probability with which each interval covers the statistic of its column.
        target : {"data", "population"}, default "data"
            "data": the statistic of the data at hand. "population": the statistic of the population that the rows are
            a random sample of. This needs standard deviations, so only `describe` supports it.

        Returns
        -------
        ndarray of shape (..., d, 2)
        """
        if is_of_population(target, self.plan.people):
            if self.statistic == "count":
                raise UsageError(
                    "target='population' is not for counts. Use es.histogram, whose intervals have of='share'."
                )
            raise UsageError(
                f"target='population' needs standard deviations, which a {self.statistic} does not release. "
                "Use es.describe."
            )
        return self._data_interval(level)

    def _data_interval(self, level: float) -> Floats:
        center, half = self._center, self.half_widths(level)
        ends = np.empty((*np.broadcast_shapes(center.shape, half.shape), 2))
        low, high = ends[..., 0], ends[..., 1]  # In place, since there may be millions of columns.
        np.subtract(center, half, out=low)
        np.add(center, half, out=high)
        if self.learned is not None:
            low[...], high[...] = self._with_learned_bias(low, high)
        for end in (low, high):
            np.clip(end, *self._possible_range, out=end)
        return ends

    def _with_learned_bias(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Interval ends, widened by the bias of clamping to learned bounds [L11]."""
        assert self.learned is not None
        return self.learned.widened(low, high, np.maximum(self.decoded.counts.rows, 1.0), self.statistic in SUMS)


def is_of_population(target: str, people: People | None) -> bool:
    """Whether an interval is for a population. Its rows must be independent draws, so each person has only one."""
    if choice("target", target, ("data", "population")) == "population" and people and (people.rows_each or 1) > 1:
        raise UsageError(
            "target='population' needs independent rows, and several rows of one person are not. Use "
            "per_person='mean' or max_rows=1, or leave target out."
        )
    return target == "population"


def import_pandas() -> ModuleType:
    """The optional pandas."""
    try:
        return import_module("pandas")
    except ImportError:
        raise UsageError("to_pandas needs pandas. Install it with: pip install pandas") from None


def read_release(saved: object, make_plan: Callable[[object], P], class_of: Callable[[P], type[R]]) -> R:
    """Read a release from a file and check that all its numbers follow from its plan and its noisy sums.

    class_of: returns the class of a plan's releases.
    """
    with json_codec.Fields(saved, WRONG) as fields:
        fields.check_format(FORMAT, _OTHER_FORMAT)
        plan = fields.take("plan", make_plan)
        return class_of(plan).from_plan(fields, plan)
