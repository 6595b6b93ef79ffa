"""What may be published: the noisy value with its noise, guarantee and plan, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..display.document import Background, Document
from ..display.result import Shown
from ..errors import Floats, UsageError, open_unit
from ..noise.law import Law
from ..privacy.spherical_curve import Guarantee, guarantee_from_dict
from ..regions.ellipsoid import Ellipsoid
from ..request.people import People
from ..request.request import STATISTICS
from ..row_maps.auxiliary_counts import Riders
from ..rows import Rows
from ..util import json_codec
from ..util.atomic_files import Kept, Saved
from ..util.structural_equality import Alike
from ..version import VERSION
from .clipping_bias import ClippingBias, measure_clipping_bias
from .confidence_regions import ConfidenceBox, ConfidenceEllipsoid, confidence_ellipsoid, confidence_region
from .decode import Absent, Counts, count_clipped, decode, noise_of
from .noise_covariance import Noise
from .postprocess import METHODS as DENOISED
from .postprocess import OPTIONS as DENOISE_OPTIONS
from .postprocess import denoised

if TYPE_CHECKING:
    import pandas

    from ..display.plots.strips import Sheet
    from .learning_record import Learning

FORMAT = "ellipsum.release/3"
WRONG = "the release has missing, unknown or wrong fields."
DOCTORED = "this release's value, noise or guarantee is not that of its plan. It was changed after it was made."
_LEVEL = 0.95
_FARTHEST = 64.0  # stds that noise may move a count by; more has odds below 1e-890
_NEAR = 1e-6  # what rounding may change; the displayed digits are fewer


class Planned(Protocol):
    """What a release asks of its plan, whatever kind of plan it is."""

    @property
    def statistic(self) -> str: ...
    @property
    def columns(self) -> tuple[str, ...] | None: ...
    @property
    def privacy(self) -> Guarantee: ...
    @property
    def stated(self) -> Mapping[str, float]: ...
    @property
    def n(self) -> int | None: ...
    @property
    def d(self) -> int: ...
    @property
    def neighbors(self) -> str: ...
    @property
    def people(self) -> People | None: ...
    @property
    def rows(self) -> Rows | None: ...
    @property
    def riders(self) -> Riders | None: ...
    @property
    def clamped(self) -> bool: ...
    @property
    def doubt(self) -> str | None: ...
    @property
    def ellipsoid(self) -> Ellipsoid: ...
    @property
    def mechanism(self) -> str: ...
    @property
    def noise_law(self) -> Law: ...
    @property
    def noise_base(self) -> tuple[Ellipsoid, float]: ...
    def multiples(self, level: float) -> Floats: ...
    def forecast_svg(self, prefix: str) -> str | None: ...
    def to_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Published:
    """A value with its noise and the counts beside it."""

    value: Floats
    noise: Noise
    counts: Counts | None = None
    row_count: float | None = None


@dataclass(frozen=True, repr=False)
class Release(Alike, Kept, Saved, Shown):
    """A published statistic: a plan and its noisy sums. Everything else follows from these."""

    plan: Planned
    """The plan that was run: every public number of this release."""
    noisy: Floats
    """The noisy sums in the plan's scaled space: values, counts beside them and, where n is private, the count."""
    secure: bool
    denoised: str | None = None
    """How the value was cleaned after its noise, and with which options."""
    denoise_options: Mapping[str, Any] = field(default_factory=dict)
    privacy_spent: Guarantee | None = None
    """Set where earlier rounds (learning) spent budget too."""
    learned: Learning | None = None
    """What happened before, where the bounds were learned: steps with their cost, and what clipping may hide."""

    @property
    def _absent(self) -> Absent | None:
        return None if self.learned is None else self.learned.absent

    @cached_property
    def _published(self) -> Published:
        """Everything that follows from the noisy sums [U3][U6]."""
        decoded = decode(self.plan, self.noisy, self._absent)
        counts = count_clipped(self.plan, decoded.rows, self.noisy)
        noise = noise_of(self.plan, decoded, self._absent)
        return Published(self._held(decoded.value), noise, counts, decoded.rows.count)

    def _held(self, value: Floats) -> Floats:
        """Means of clamped values lie between learned ends, and a column that was not found has no value [L11]."""
        if self.learned is None:
            return value
        if self.plan.clamped and self.plan.rows is not None and self.statistic == "mean":
            value = np.clip(value, *self.plan.rows.bounds())
        return np.where(self.learned.found, value, np.nan)

    @cached_property
    def value(self) -> Floats:
        """The statistic, one number per column."""
        if self.denoised is None:
            return self._published.value
        return denoised(replace(self, denoised=None, denoise_options={}), self.denoised, **self.denoise_options)

    @property
    def noise(self) -> Noise:
        """The covariance of the noise."""
        return self._published.noise

    @property
    def counts(self) -> Counts | None:
        """How many rows have each column, and how many were clipped: noisy, paid for within the same guarantee."""
        return self._published.counts

    @property
    def row_count(self) -> float | None:
        """The noisy number of all rows, where n is private."""
        return self._published.row_count

    @property
    def statistic(self) -> str:
        return self.plan.statistic

    @property
    def columns(self) -> tuple[str, ...] | None:
        return self.plan.columns

    @property
    def privacy(self) -> Guarantee:
        """Everything that was spent on this value."""
        return self.privacy_spent or self.plan.privacy

    @property
    def stated(self) -> Mapping[str, float]:
        """The budget in the caller's own words."""
        return self.plan.stated if self.learned is None else self.learned.stated

    @property
    def noise_std(self) -> Floats:
        """Std of the noise in each coordinate; the error of clipping is not in it."""
        return self.noise.stds

    @cached_property
    def clipping_bias(self) -> ClippingBias:
        """What clipping may hide of the data, as far as it was measured."""
        if self.counts is None:
            return ClippingBias(np.zeros(self.value.size), np.zeros(self.value.size))
        return measure_clipping_bias(self.plan, self.counts)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the counts say against the value, in words; nothing where there is nothing to say."""
        if self.learned is None:
            return self.clipping_bias.warnings
        return (*self.learned.warnings, *self.clipping_bias.warnings)

    @property
    def standard_error(self) -> Floats:
        """Root mean square error in each column: noise, counts, and clipping as far as it was measured."""
        stds: Floats = np.hypot(np.hypot(self._wide_stds, self.clipping_bias.std_of_bound), self.clipping_bias.bound)
        if self.learned is None:
            return stds
        low, high = self._learned_ends(np.zeros(stds.size))
        return np.hypot(stds, np.maximum(-low, high) / 2)  # a bias at 95% is about two of its standard deviations

    @property
    def _wide_stds(self) -> Floats:
        """Noise stds, widened where a mean divides by a count that is itself in doubt [U2]."""
        if self.counts is None or self.statistic == "sum":
            return self.noise_std
        doubt = self.counts.stds / np.maximum(self.counts.rows, 1.0)
        wide: Floats = self.noise_std * np.sqrt(1 + 3 * np.minimum(doubt, 1.0) ** 2)
        return wide

    def confidence_interval(self, level: float = 0.95) -> Floats:
        """(d, 2) bounds for the statistic of the data, each covering its own column at `level`.

        They cover the noise of sums and counts and, where rows are clipped, what the counted rows may hide; for Box
        rows they speak of the clamped values. `warnings` says where they cannot be relied on. What was not measured
        (check=False) is not in them, nor is sampling error.
        """
        quantiles = self.plan.multiples(open_unit("level", level))
        half = quantiles * np.hypot(self._wide_stds, self.clipping_bias.std_of_bound) + self.clipping_bias.bound
        low, high = self.value - half, self.value + half
        if self.learned is not None:
            low, high = self._learned_ends(low, high)
        return np.stack([low, high], axis=1)

    def _learned_ends(self, low: Floats, high: Floats | None = None) -> tuple[Floats, Floats]:
        """Ends of intervals with what learned bounds cut off [L11]."""
        assert self.learned is not None
        rows = np.full(low.size, self.row_count or self.plan.n or 0.0) if self.counts is None else self.counts.rows
        high = low if high is None else high
        return self.learned.widened(low, high, np.maximum(rows, 1.0), self.statistic == "sum")

    def confidence_region(self, level: float = 0.95) -> ConfidenceEllipsoid | ConfidenceBox:
        """The joint region of all columns: it covers the privacy noise. An ellipsoid, or a box for noise in blocks."""
        return confidence_region(self.value, self.noise, self.plan, level)

    def confidence_ellipsoid(self, level: float = 0.95) -> ConfidenceEllipsoid:
        """The joint region of all columns as an ellipsoid: Gaussian and spherical noise have one."""
        return confidence_ellipsoid(self.value, self.noise, self.plan, level)

    def denoise(self, method: str, **options: Any) -> Release:
        """Post-processing, free of privacy cost: "james_stein", "soft_threshold", "wiener" or "clamp"."""
        options = {name: value for name, value in options.items() if value is not None}
        denoised(self, method, **options)  # an error where it cannot be
        return replace(self, denoised=method, denoise_options=options)

    def names(self) -> tuple[str, ...]:
        """Column names, or x1, x2, ... where there are none."""
        return self.columns or tuple(f"x{j + 1}" for j in range(self.value.size))

    def to_dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "statistic": self.statistic,
            "columns": list(self.names()),
            "value": [None if math.isnan(value) else value for value in self.value.tolist()],
            "noise_std": self.noise_std.tolist(),
            "privacy": self.privacy.to_dict(),
            "secure": self.secure,
            "count": self.row_count,
            "noisy": self.noisy.tolist(),
            "denoised": self.denoised,
            "denoise_options": {name: as_json(value) for name, value in self.denoise_options.items()},
            "counts": None if self.counts is None else self.counts.to_dict(),
            "standard_error": self.standard_error.tolist(),
            "interval": {"level": _LEVEL, "bounds": self.confidence_interval(_LEVEL).tolist()},
            "warnings": list(self.warnings),
            "plan": self.plan.to_dict(),
        }
        if self.learned is not None:
            fields["learned"] = self.learned.to_dict()
        return fields

    def to_json(self) -> str:
        return json_codec.dump(self.to_dict())

    def check_shown(self, fields: json_codec.Fields) -> None:
        """An error where what a file shows does not follow from its noisy sums."""
        check_shown(self, fields)

    def to_pandas(self) -> pandas.DataFrame:
        """One row per column: what was published, with 95% intervals; a column tells where the noise is not secure."""
        try:
            import pandas
        except ImportError:
            raise UsageError("to_pandas needs pandas. Install it with: pip install pandas") from None
        from ..display.wording import describe_guarantee

        table = self._table()
        if not self.secure:
            table["secure"] = False
        frame = pandas.DataFrame(table, index=pandas.Index(self.names(), name="column"))
        frame.attrs.update(secure=self.secure, guarantee=describe_guarantee(self.privacy, self.stated))
        frame.attrs.update(level=_LEVEL, warnings=list(self.warnings))
        return frame

    def _table(self) -> dict[str, Any]:
        low, high = self.confidence_interval(_LEVEL).T
        errors = {"noise_std": self.noise_std, "standard_error": self.standard_error}
        return {"value": self.value, **errors, "lower": low, "upper": high}

    def sheet(self, order: str = "given", columns: Sequence[str] | None = None) -> Sheet:
        from .pictures import release_sheet

        return release_sheet(self, order, columns)

    def document(self, most: int | None = None) -> Document:
        from .documents import release_document

        return release_document(self, most)

    def background(self) -> Background:
        from .documents import release_background

        return release_background(self)


# From a file: whatever a release shows is checked against its plan ------------------------------------


def planned_release(
    saved: Mapping[str, Any], make_plan: Callable[[Any], Any], kind_of: Callable[[Any], type[Release]]
) -> Release:
    """A release of a plan of one kind, from a file: its noisy sums are taken, and all else must follow from them."""
    with json_codec.Fields(saved, WRONG) as fields:
        fields.check_format(FORMAT, f"not a release of format {FORMAT}. It may come from another version of ellipsum.")
        plan = fields.take("plan", make_plan)
        learned, spent = None, fields.take("privacy", guarantee_from_dict)
        if "learned" in saved:
            learned = fields.take("learned", _learning)
            each = plan.people.rows_each if plan.people is not None else None
            learned.check(spent.as_pair(), plan.privacy.as_pair(), plan.d, each or 1)
        release = kind_of(plan)(
            plan=plan,
            noisy=fields.take("noisy", json_codec.numbers),
            secure=fields.take("secure", json_codec.flag),
            denoised=fields.maybe("denoised", json_codec.word(*DENOISED)),
            denoise_options=fields.take("denoise_options", read_denoise_options),
            privacy_spent=None if learned is None else spent,
            learned=learned,
        )
        if release.noisy.shape != plan.stds.shape or spent != release.privacy:
            raise UsageError(DOCTORED)
        release.check_shown(fields)
    check_counts(release)
    return release


def _learning(saved: Any) -> Learning:
    from .learning_record import Learning

    return Learning.from_dict(saved)


def _values(saved: Any) -> Floats:
    """Numbers, or nothing where a column was not found."""
    number_or_none = json_codec.optional(json_codec.number)
    return np.array([math.nan if one is None else one for one in json_codec.list_of(number_or_none)(saved)])


def check_shown(release: Release, fields: json_codec.Fields) -> None:
    """The fields that repeat, for a reader, what follows from others; intervals and warnings are worked out again."""
    statistic = fields.take("statistic", json_codec.word(*STATISTICS))
    columns = fields.take("columns", json_codec.names)
    value, stds = fields.take("value", _values), fields.take("noise_std", json_codec.numbers)
    count, counts = fields.maybe("count", json_codec.number), fields.maybe("counts", _numbers_by_name)
    for name in ("standard_error", "interval", "warnings"):
        fields.take(name, lambda value: None)
    if (statistic, columns) != (release.statistic, release.names()):
        raise UsageError(DOCTORED)
    own = None if release.counts is None else release.counts.to_dict()
    pairs = [(stds, release.noise_std), (count, release.row_count)]
    if (own is None) != (counts is None) or (own or {}).keys() != (counts or {}).keys():
        raise UsageError(DOCTORED)
    pairs += [((counts or {})[name], part) for name, part in (own or {}).items()]
    largest = float(np.abs(release.noise_std).max(initial=0.0))
    if not follows(value, release.value, largest) or not all(follows(*pair) for pair in pairs):
        raise UsageError(DOCTORED)


def check_counts(release: Release) -> None:
    """An error where a count is off by more than noise can be: more rows would make the noise look smaller."""
    plan: Any = release.plan
    if release.counts is None:
        return
    rows, stds = release.counts.rows, release.counts.stds
    start = float(plan.n or 0) if release.row_count is None else release.row_count
    own = plan.absence_stds if plan.absence_stds.size else np.zeros(1)
    own = own if release.learned is None or release.learned.absent is None else release.learned.absent.stds
    rounding = _NEAR * max(abs(start), 1.0)
    within = (start - rows >= -_FARTHEST * own - rounding) & (rows >= -_FARTHEST * stds - rounding)
    if not within.all():
        raise UsageError(DOCTORED)


def follows(shown: Any, wanted: Any, size: float | None = None) -> bool:
    """Whether a number of a file, or an array, is the one that follows but for rounding; size: of such numbers."""
    if shown is None or wanted is None:
        return shown is wanted
    shown, wanted = np.asarray(shown, float), np.asarray(wanted, float)
    size = float(np.abs(wanted).max(initial=0.0)) if size is None else size
    return shown.shape == wanted.shape and bool(
        np.allclose(shown, wanted, rtol=_NEAR, atol=_NEAR * size, equal_nan=True)
    )


def _numbers_by_name(saved: Any) -> dict[str, Floats | None]:
    """The counts as a file shows them."""
    with json_codec.Fields(saved, WRONG) as fields:
        names = ("rows", "stds", "clipped", "outside")
        return {name: fields.maybe(name, json_codec.numbers) for name in names}


def read_denoise_options(saved: Any) -> dict[str, Any]:
    """Numbers, or lists of them, by name."""
    number_or_list = json_codec.any_of(json_codec.number, json_codec.list_of(json_codec.number))
    with json_codec.Fields(saved, WRONG) as fields:
        return {name: fields.take(name, number_or_list) for name in DENOISE_OPTIONS if name in saved}


def as_json(value: Any) -> Any:
    """An option of denoising as numbers."""
    return np.asarray(value, float).tolist()
