"""What may be published: the noisy value with its noise, guarantee and plan, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from .decode import Tally, mean_noise, sum_noise, tally_of
from .noise_covariance import Noise
from .postprocess import METHODS as DENOISED
from .postprocess import denoised

if TYPE_CHECKING:
    import pandas

    from ..display.plots.strips import Sheet
    from .learning_record import Learning

FORMAT = "ellipsum.release/2"
WRONG = "the release has missing, unknown or wrong fields."
DOCTORED = "this release's value, noise or guarantee is not that of its plan. It was changed after it was made."
_LEVEL = 0.95
_FARTHEST = 64.0  # stds that noise may move a count by; more has odds below 1e-890
_NEAR = 1e-6  # what rounding may change; the displayed digits are fewer


@dataclass(frozen=True)
class Counts(Alike):
    """Noisy numbers of rows that were published beside a value.

    rows: how many rows have each column, one per column, and stds: their noise. clipped: rows outside the region, by
    octave (up to 2, 4, 8, ... radii away, the last without end). outside: cells outside their bounds, one per column.
    The last two are None where nothing was counted.
    """

    rows: Floats
    stds: Floats
    clipped: Floats | None = None
    outside: Floats | None = None

    @staticmethod
    def of(plan: Any, tally: Tally, scaled: Floats) -> Counts:
        """The counts behind the values of noisy sums."""
        riders = plan.riders
        if not riders.outside.size:
            return Counts(tally.rows, tally.stds)
        start = plan.ellipsoid.width + riders.absences.size
        behind = scaled[start : plan.ellipsoid.width + riders.counted] * 2.0**plan.grid_bits
        if riders.octaves:
            return Counts(tally.rows, tally.stds, behind / max(riders.outside[0], 1))
        return Counts(tally.rows, tally.stds, None, behind / riders.cell_units)

    def to_dict(self) -> dict[str, Any]:
        parts = {"rows": self.rows, "stds": self.stds, "clipped": self.clipped, "outside": self.outside}
        return {name: None if part is None else part.tolist() for name, part in parts.items()}


def _counts_from_dict(saved: Any, plan: Any) -> Counts:
    with json_codec.Fields(saved, WRONG) as fields:
        counts = Counts(
            fields.take("rows", json_codec.numbers),
            fields.take("stds", json_codec.numbers),
            fields.maybe("clipped", json_codec.numbers),
            fields.maybe("outside", json_codec.numbers),
        )
    octaves, cells = plan.riders.octaves, 0 if plan.riders.octaves else plan.riders.outside.size
    sizes = counts.rows.size, counts.stds.size, _size(counts.clipped), _size(counts.outside)
    if sizes != (plan.d, plan.d, octaves, cells) or (counts.stds < 0).any():
        raise UsageError(DOCTORED)
    return counts


def _size(part: Floats | None) -> int:
    """0 where nothing was counted, which is not the same as counts of nothing."""
    return 0 if part is None else part.size or -1


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


@dataclass(frozen=True, repr=False)
class Release(Alike, Kept, Saved, Shown):
    """A published statistic. Every field is a function of the noisy integers and of public numbers."""

    value: Floats
    plan: Planned
    """The plan that was run: every public number of this release."""
    noise: Noise
    secure: bool
    count: float | None = None
    """The noisy count under add_remove, where n is private."""
    denoised: str | None = None
    privacy_spent: Guarantee | None = None
    """Set where earlier rounds (learning) spent budget too."""
    learned: Learning | None = None
    """What happened before, where the bounds were learned: steps with their cost, and what clipping may hide."""
    counts: Counts | None = None
    """How many rows have each column, and how many were clipped: noisy, paid for within the same guarantee."""

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
        rows = np.full(low.size, _start(self)) if self.counts is None else self.counts.rows
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
        return replace(self, value=denoised(self, method, **options), denoised=method)

    def names(self) -> tuple[str, ...]:
        """Column names, or x1, x2, ... where there are none."""
        return self.columns or tuple(f"x{j + 1}" for j in range(self.value.size))

    def to_dict(self) -> dict[str, Any]:
        noise = self.noise
        directions = {"count_direction": noise.count_direction, "stretch": noise.stretch, "own": noise.own}
        fields: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "statistic": self.statistic,
            "columns": list(self.names()),
            "value": [None if math.isnan(value) else value for value in self.value.tolist()],
            "noise_std": self.noise_std.tolist(),
            "privacy": self.privacy.to_dict(),
            "secure": self.secure,
            "count": self.count,
            "denoised": self.denoised,
            "noise": {
                "scaled_std": self.noise.std,
                **{name: None if part is None else part.tolist() for name, part in directions.items()},
            },
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


def planned_release(saved: Mapping[str, Any], plan_from_dict: Callable[[Any], Any]) -> Release:
    """A release of a plan of one kind, from a file."""
    with json_codec.Fields(saved, WRONG) as fields:
        fields.check_format(FORMAT, f"not a release of format {FORMAT}. It may come from another version of ellipsum.")
        plan = fields.take("plan", plan_from_dict)
        spent = fields.take("privacy", guarantee_from_dict)
        learned = fields.take("learned", _learning) if "learned" in saved else None
        release = Release(
            value=fields.take("value", _values if learned is not None else json_codec.numbers),
            plan=plan,
            noise=fields.take("noise", lambda noise: _noise(noise, plan)),
            secure=fields.take("secure", json_codec.flag),
            count=fields.maybe("count", json_codec.number),
            denoised=fields.maybe("denoised", json_codec.word(*DENOISED)),
            privacy_spent=None if learned is None else spent,
            learned=learned,
            counts=fields.maybe("counts", lambda counts: _counts_from_dict(counts, plan)),
        )
        for shown in ("standard_error", "interval", "warnings"):
            fields.take(shown, lambda value: None)  # worked out anew
        check_shown(release, fields)
    if spent != release.privacy or (release.count is None) != (plan.count_std is None):
        raise UsageError(DOCTORED)
    if release.counts is None and plan.riders.width:
        raise UsageError(DOCTORED)
    if learned is not None:
        learned.check(spent.as_pair(), plan.privacy.as_pair(), plan.d)
        if not np.array_equal(np.isnan(release.value), ~learned.found):
            raise UsageError(DOCTORED)
    _check_counts(release)
    _check_noise(release)
    return release


def _values(saved: Any) -> Floats:
    """Numbers, or nothing where a column was not found."""
    return np.array(
        [math.nan if one is None else json_codec.number(one) for one in json_codec.list_of(lambda one: one)(saved)]
    )


def _learning(saved: Any) -> Learning:
    from .learning_record import Learning

    return Learning.from_dict(saved)


def check_shown(release: Release, fields: json_codec.Fields) -> None:
    """The fields that repeat, for a reader, what follows from others."""
    statistic, columns = (
        fields.take("statistic", json_codec.word(*STATISTICS)),
        fields.take("columns", json_codec.names),
    )
    stds = fields.take("noise_std", json_codec.numbers)
    shaped = release.value.shape == release.noise.stds.shape == stds.shape
    if statistic != release.statistic or not shaped or columns != release.names():
        raise UsageError(DOCTORED)
    if not np.allclose(stds, release.noise_std, rtol=_NEAR, atol=0):
        raise UsageError(DOCTORED)


def _noise(saved: Any, plan: Planned) -> Noise:
    with json_codec.Fields(saved, WRONG) as fields:
        std = fields.take("scaled_std", json_codec.number)
        names = ("count_direction", "stretch", "own")
        direction, stretch, own = (fields.maybe(name, json_codec.numbers, None) for name in names)
    ellipsoid = plan.noise_base[0] if plan.mechanism == "box" else plan.ellipsoid
    ellipsoid.check()
    sized = all(part is None or part.size == plan.d for part in (direction, stretch, own))
    if std <= 0 or ellipsoid.width != plan.ellipsoid.width or not sized:
        raise UsageError(DOCTORED)
    return Noise(ellipsoid, std, direction, stretch, own)


def _check_noise(release: Release) -> None:
    """One round's noise follows from the plan and, where counts are noisy, from those and the published value."""
    wanted, rounding = _expected(release.plan, release)
    noise = release.noise
    if not math.isclose(noise.std, wanted.std, rel_tol=_NEAR):
        raise UsageError(DOCTORED)
    if not _alike(noise.stretch, wanted.stretch, _NEAR):
        raise UsageError(DOCTORED)
    # A value that was denoised, or held to learned ends, is not the one that the noise was worked out for.
    skipped = release.statistic == "mean" and (release.denoised is not None or release.learned is not None)
    tolerance = rounding + _NEAR * wanted.stds
    for part, expected in ((noise.count_direction, wanted.count_direction), (noise.own, wanted.own)):
        if (part is None) != (expected is None) or not (skipped or _alike(part, expected, tolerance)):
            raise UsageError(DOCTORED)


def _alike(part: Floats | None, expected: Floats | None, tolerance: Any) -> bool:
    if part is None or expected is None:
        return part is expected
    return bool((np.abs(part - expected) <= tolerance).all())


def _expected(plan: Any, release: Release) -> tuple[Noise, Floats]:
    """The noise of a release as `answers` has it, and how far rounding of the value may move its directions."""
    center, nothing = plan.ellipsoid.center, np.zeros(plan.d)
    counts = _tally(release)
    divisor = np.maximum(counts.rows, 1.0)
    absent = None if release.learned is None else release.learned.absent
    if plan.statistic == "sum":
        if plan.needs_no_count and absent is None:
            return Noise(*plan.noise_base), nothing
        return sum_noise(plan, counts, absent), nothing
    lever = counts.stds / divisor
    noise = mean_noise(plan, counts, release.value - center, absent)
    return noise, 4 * np.finfo(float).eps * lever * (np.abs(center) + np.abs(release.value))


def _tally(release: Release) -> Tally:
    """The counts of a release, with the noise that they have by its plan and by the rounds before."""
    plan: Any = release.plan
    rows = np.full(plan.d, _start(release)) if release.counts is None else release.counts.rows
    return tally_of(plan, rows, release.count, None if release.learned is None else release.learned.absent)


def _start(release: Release) -> float:
    """The number of all rows, as far as it is known."""
    return float(release.plan.n or 0) if release.count is None else release.count


def _check_counts(release: Release) -> None:
    """Rows that have a column are all rows less the absent ones, and both numbers may be off by noise alone."""
    if release.counts is None:
        return
    plan: Any = release.plan
    rows, stds, start = release.counts.rows, release.counts.stds, _start(release)
    own = np.broadcast_to(plan.absence_stds if plan.absence_stds.size else np.zeros(1), rows.shape)
    own = own if release.learned is None or release.learned.absent is None else release.learned.absent.stds
    rounding = _NEAR * max(abs(start), 1.0)
    within = (start - rows >= -_FARTHEST * own - rounding) & (rows >= -_FARTHEST * stds - rounding)
    within &= (own > 0) | (np.abs(start - rows) <= rounding)
    if not within.all() or (plan.riders.missing == "row" and (rows != rows[0]).any()):
        raise UsageError(DOCTORED)
    if not _alike(stds, _tally(release).stds, _NEAR * stds):
        raise UsageError(DOCTORED)
