"""What every release of a statistic has, and how it is read from a file: its noisy sums are taken, all else follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..display.checklist import EXACT
from ..display.document import Background
from ..display.recipe import request_recipe
from ..display.result import Shown
from ..display.wording import LEVEL, describe_guarantee
from ..errors import Floats, UsageError
from ..privacy.budget import Budget
from ..privacy.spherical_curve import Guarantee, guarantee_from_dict
from ..request.request import Request
from ..rows import Unknown
from ..util import json_codec
from ..util.atomic_files import Kept, Saved
from ..util.structural_equality import ValueEquality
from ..version import VERSION
from .learning_record import Learning
from .numbers import PublicNumbers

if TYPE_CHECKING:
    import pandas

__all__ = ["DOCTORED", "FORMAT", "LEVEL", "WRONG", "StatisticRelease", "read_release"]

FORMAT = "ellipsum.release/3"
WRONG = "The release file has missing, unknown or wrong fields."
DOCTORED = (
    "Integrity check failed: the values, noise or privacy guarantee in this file do not match its plan. "
    "The file was modified after it was written."
)
_OTHER_FORMAT = f"Not a release of format {FORMAT}. The file may come from another version of ellipsum."


@dataclass(frozen=True, repr=False)
class StatisticRelease(ValueEquality, Kept, Saved, Shown):
    """A published statistic: a plan and its noisy sums. Everything else follows from these."""

    plan: PublicNumbers
    """The plan that was run: every public number of this release."""
    noisy: Floats
    """The noisy sums in the plan's scaled space: values, counts beside them and, where n is private, the count; of
    groups, a row for each."""
    secure: bool
    """False where the noise came from a caller's generator: the release is then not private."""
    privacy_spent: Guarantee | None = field(default=None, kw_only=True)
    """Set where earlier steps (learning) spent budget too."""
    learned: Learning | None = field(default=None, kw_only=True)
    """The steps that learned the bounds, with their cost, and what clipping to these may have moved."""

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
        """The first column names, or all; x1, x2, ... where there are none."""
        return (self.columns or tuple(f"x{j + 1}" for j in range(self.plan.d)[:most]))[:most]

    def background(self) -> Background:
        """What a report says beside every statistic; each adds the origin of its bounds, and its mechanism."""
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
        """What the caller asked for, with the bounds that were stated where others were learned from them."""
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
        """A pandas frame; where the noise is not secure, a column says so."""
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
        fields = {
            "format": FORMAT,
            "version": VERSION,
            "statistic": self.statistic,
            "columns": list(self.names()),
            "value": value.tolist(),
            "noise_std": self.noise_std.tolist(),
            "standard_error": self.standard_error.tolist(),
            "interval": {"level": LEVEL, "bounds": self.confidence_interval(LEVEL).tolist()},
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
        """The noisy sums, and what this kind of release holds beside them, from a file."""
        raise NotImplementedError

    def check(self) -> None:
        """An error where a release from a file cannot be one of its plan; its noisy sums have the right size first."""
        raise NotImplementedError

    @classmethod
    def from_plan(cls, fields: json_codec.Fields, plan: PublicNumbers) -> Self:
        """The release of a plan, from the fields of a file."""
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


def import_pandas() -> ModuleType:
    """The optional pandas."""
    try:
        return import_module("pandas")
    except ImportError:
        raise UsageError("to_pandas needs pandas. Install it with: pip install pandas") from None


def read_release(saved: object, make_plan: Callable[[Any], Any], class_of: Callable[[Any], Any]) -> Any:
    """A release from a file: everything that it shows must follow from its plan and its noisy sums.

    class_of: the class of a plan's releases.
    """
    with json_codec.Fields(saved, WRONG) as fields:
        fields.check_format(FORMAT, _OTHER_FORMAT)
        plan = fields.take("plan", make_plan)
        return class_of(plan).from_plan(fields, plan)
