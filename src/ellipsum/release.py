"""What may be published: the noisy value with its noise, guarantee and plan, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from . import codec
from .charged import METHODS, Round, check_rounds
from .errors import Floats, UsageError, open_unit, vector
from .files import read_text, write_atomically
from .people import People
from .plan_files import STATISTICS
from .postprocess import METHODS as DENOISED
from .postprocess import denoised
from .privacy import Privacy, stated_from_dict
from .shape import Ellipsoid
from .texts import describe_release, guarantee, release_html
from .vector_noise import Noise
from .version import VERSION

if TYPE_CHECKING:
    import pandas

FORMAT = "ellipsum.release/1"
WRONG = "the release has missing, unknown or wrong fields."
DOCTORED = "this release's value, noise or guarantee is not that of its plan. It was changed after it was made."
_NEAR = 1e-6  # what rounding may change; the displayed digits are fewer


@dataclass(frozen=True)
class ConfidenceEllipsoid:
    """All points that the published value's noise could explain at a level: {x : (x-v)^T V^-1 (x-v) <= q}."""

    value: Floats
    noise: Noise
    squared_radius: float
    level: float

    def contains(self, point: Any) -> bool:
        """Whether a point lies in the region; a direction without noise must match the value."""
        offset = vector("point", point, self.value.size) - self.value
        ellipsoid = self.noise.ellipsoid
        flat = ellipsoid.along(offset)[ellipsoid.scale == 0]
        if (np.abs(flat) > 1e-9 * (1 + np.abs(self.value).max())).any():
            return False
        return self.noise.squared_length(offset) <= self.squared_radius


class Planned(Protocol):
    """What a release asks of its plan, whatever kind of plan it is."""

    @property
    def statistic(self) -> str: ...
    @property
    def columns(self) -> tuple[str, ...] | None: ...
    @property
    def privacy(self) -> Privacy: ...
    @property
    def stated(self) -> Mapping[str, float]: ...
    @property
    def n(self) -> int | None: ...
    @property
    def d(self) -> int: ...
    @property
    def neighbours(self) -> str: ...
    @property
    def people(self) -> People | None: ...
    @property
    def ellipsoid(self) -> Ellipsoid: ...
    def to_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, repr=False)
class Release:
    """A published statistic. Every field is a function of the noisy integers and of public numbers."""

    value: Floats
    plan: Planned
    """The plan that was run: every public number of this release."""
    noise: Noise
    secure: bool
    count: float | None = None
    """The noisy count under add_remove, where n is private."""
    denoised: str | None = None
    privacy_spent: Privacy | None = None
    """Set where earlier rounds (learning) spent budget too."""
    learned: Mapping[str, Any] | None = None
    """Where rounds came before: the method, the budget as stated, and every round's name and cost."""

    @property
    def statistic(self) -> str:
        return self.plan.statistic

    @property
    def columns(self) -> tuple[str, ...] | None:
        return self.plan.columns

    @property
    def privacy(self) -> Privacy:
        """Everything that was spent on this value."""
        return self.privacy_spent or self.plan.privacy

    @property
    def stated(self) -> Mapping[str, float]:
        """The budget in the caller's own words."""
        return self.plan.stated if self.learned is None else dict(self.learned["stated"])

    @property
    def noise_std(self) -> Floats:
        """Std of the noise in each coordinate; the error of clipping is not in it."""
        return self.noise.stds

    def confidence_interval(self, level: float = 0.95) -> Floats:
        """(d, 2) bounds, each covering its own coordinate at `level`.

        They cover the privacy noise: where the statistic of the *clipped* rows lies. Sampling error, and
        what clipping removed, are not in them.
        """
        from scipy.special import ndtri

        half = float(ndtri((1 + open_unit("level", level)) / 2)) * self.noise_std
        return np.stack([self.value - half, self.value + half], axis=1)

    def confidence_ellipsoid(self, level: float = 0.95) -> ConfidenceEllipsoid:
        """The joint region for all coordinates; like the intervals, it covers the privacy noise."""
        from scipy.special import chdtri

        freedom = int(np.count_nonzero(self.noise.ellipsoid.scale)) or 1
        quantile = float(chdtri(freedom, 1 - open_unit("level", level)))
        return ConfidenceEllipsoid(self.value, self.noise, quantile, level)

    def denoise(self, method: str, **options: Any) -> Release:
        """Post-processing, free of privacy cost: "james_stein", "soft_threshold", "wiener" or "clamp"."""
        return replace(self, value=denoised(self, method, **options), denoised=method)

    def names(self) -> tuple[str, ...]:
        """Column names, or x1, x2, ... where there are none."""
        return self.columns or tuple(f"x{j + 1}" for j in range(self.value.size))

    def to_dict(self) -> dict[str, Any]:
        direction = self.noise.count_direction
        fields: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "statistic": self.statistic,
            "columns": list(self.names()),
            "value": self.value.tolist(),
            "noise_std": self.noise_std.tolist(),
            "privacy": self.privacy.to_dict(),
            "secure": self.secure,
            "count": self.count,
            "denoised": self.denoised,
            "noise": {
                "scaled_std": self.noise.std,
                "count_direction": None if direction is None else direction.tolist(),
            },
            "plan": self.plan.to_dict(),
        }
        if self.learned is not None:  # the noise is then that of all rounds together, not the plan's
            fields["noise"] = {**fields["noise"], "scale": self.noise.ellipsoid.scale.tolist()}
            fields["learned"] = self.learned
        return fields

    def to_json(self) -> str:
        return codec.dump(self.to_dict())

    @staticmethod
    def from_json(text: str) -> Release:
        return release_from_dict(codec.parse(text))

    @staticmethod
    def load(path: str | Path) -> Release:
        """A release that was saved to a file."""
        return Release.from_json(read_text(Path(path), "release"))

    def save(self, path: str | Path) -> None:
        """Write the JSON to a file, atomically."""
        write_atomically(Path(path), self.to_json() + "\n")

    def to_pandas(self) -> pandas.DataFrame:
        """One row per column: value, noise_std; and where the noise is not secure, a column that says so."""
        try:
            import pandas
        except ImportError:
            raise UsageError("to_pandas needs pandas. Install it with: pip install pandas") from None
        table: dict[str, Any] = {"value": self.value, "noise_std": self.noise_std}
        if not self.secure:
            table["secure"] = False
        frame = pandas.DataFrame(table, index=pandas.Index(self.names(), name="column"))
        frame.attrs.update(secure=self.secure, guarantee=guarantee(self.privacy, self.stated))
        return frame

    def __repr__(self) -> str:
        return describe_release(self)

    def _repr_html_(self) -> str:
        return release_html(self)


# From a file: whatever a release shows is checked against its plan ------------------------------------


_READERS: dict[str, Callable[[Mapping[str, Any]], Release]] = {}


def register_reader(plan_format: str, read: Callable[[Mapping[str, Any]], Release]) -> None:
    """From now on releases whose plan has this format are read so."""
    _READERS[plan_format] = read


def release_from_dict(found: Mapping[str, Any]) -> Release:
    """Inverse of `Release.to_dict`."""
    plan = found.get("plan")
    kind = plan.get("format") if isinstance(plan, Mapping) else None
    read = _READERS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise UsageError(f"not a release of format {FORMAT}. It may come from another version of ellipsum.")
    return read(found)


def planned_release(found: Mapping[str, Any], plan_from_dict: Callable[[Any], Any]) -> Release:
    """A release of a plan of one kind, from a file."""
    with codec.Fields(found, WRONG) as fields:
        fields.check_format(FORMAT, f"not a release of format {FORMAT}. It may come from another version of ellipsum.")
        plan = fields.take("plan", plan_from_dict)
        spent = fields.take("privacy", Privacy.from_dict)
        learned = _learned(fields.take("learned", dict_of)) if "learned" in found else None
        release = Release(
            value=fields.take("value", codec.numbers),
            plan=plan,
            noise=fields.take("noise", lambda noise: _noise(noise, plan, learned is not None)),
            secure=fields.take("secure", codec.flag),
            count=fields.maybe("count", codec.number),
            denoised=fields.maybe("denoised", codec.word(*DENOISED)),
            privacy_spent=None if learned is None else spent,
            learned=learned,
        )
        check_shown(release, fields)
    if spent != release.privacy or (release.count is None) != (plan.count_std is None):
        raise UsageError(DOCTORED)
    if learned is None:
        _check_noise(release)
    else:
        _check_rounds(release)
    return release


def dict_of(value: Any) -> dict[str, Any]:
    """A JSON object, to be taken apart later."""
    if not isinstance(value, dict):
        raise codec.Wrong
    return value


def check_shown(release: Release, fields: codec.Fields) -> None:
    """The fields that repeat, for a reader, what follows from others."""
    statistic, columns = fields.take("statistic", codec.word(*STATISTICS)), fields.take("columns", codec.names)
    stds = fields.take("noise_std", codec.numbers)
    shaped = release.value.shape == release.noise.stds.shape == stds.shape
    if statistic != release.statistic or not shaped or columns != release.names():
        raise UsageError(DOCTORED)
    if not np.allclose(stds, release.noise_std, rtol=_NEAR, atol=0):
        raise UsageError(DOCTORED)


def _noise(found: Any, plan: Planned, learned: bool) -> Noise:
    with codec.Fields(found, WRONG) as fields:
        std = fields.take("scaled_std", codec.number)
        direction = fields.maybe("count_direction", codec.numbers)
        ellipsoid = replace(plan.ellipsoid, scale=fields.take("scale", codec.numbers)) if learned else plan.ellipsoid
    ellipsoid.check()
    if std <= 0 or ellipsoid.width != plan.ellipsoid.width or (direction is not None and direction.size != plan.d):
        raise UsageError(DOCTORED)
    return Noise(ellipsoid, std, direction)


def _check_noise(release: Release) -> None:
    """One round's noise follows from the plan and, where n is private, from the published count and value."""
    plan, noise = release.plan, release.noise
    wanted, rounding = _expected(plan, release)
    if not math.isclose(noise.std, wanted.std, rel_tol=_NEAR):
        raise UsageError(DOCTORED)
    if (noise.count_direction is None) != (wanted.count_direction is None):
        raise UsageError(DOCTORED)
    if noise.count_direction is None or (plan.statistic == "mean" and release.denoised is not None):
        return  # the value before it was denoised is not kept
    assert wanted.count_direction is not None
    tolerance = _NEAR * wanted.stds + rounding
    if not (np.abs(noise.count_direction - wanted.count_direction) <= tolerance).all():
        raise UsageError(DOCTORED)


def _expected(plan: Any, release: Release) -> tuple[Noise, Floats]:
    """The noise of a release as `run` has it, and how far rounding of the value may move its direction."""
    center = plan.ellipsoid.center
    if plan.statistic == "sum" or plan.count_std is None or release.count is None:
        noise = plan.noise()
        assert noise is not None
        return noise, np.zeros(plan.d)
    divisor = max(release.count, 1.0)
    lever = plan.count_std / divisor
    noise = Noise(plan.ellipsoid, plan.scaled_std / divisor, (release.value - center) * lever)
    return noise, 4 * np.finfo(float).eps * lever * (np.abs(center) + np.abs(release.value))


def _learned(found: dict[str, Any]) -> dict[str, Any]:
    with codec.Fields(found, WRONG) as fields:
        return {
            "method": fields.take("method", codec.word(*METHODS)),
            "clip_bias": fields.maybe("clip_bias", codec.number),
            "stated": fields.take("stated", stated_from_dict),
            "rounds": [step.to_dict() for step in fields.take("rounds", codec.list_of(Round.from_dict))],
        }


def _check_rounds(release: Release) -> None:
    """The rounds fit into the guarantee [P5], which is that of the stated budget; the last one is the plan's."""
    assert release.learned is not None
    rounds = [Round.from_dict(step) for step in release.learned["rounds"]]
    total = release.privacy
    if all(step.privacy.unit == "row" for step in rounds):  # so earlier versions wrote the rounds of people too
        total = replace(total, unit="row")
    check_rounds(total, rounds, release.stated)
    if rounds[-1].privacy.mu != release.plan.privacy.mu or release.noise.std != 1:
        raise UsageError(DOCTORED)
