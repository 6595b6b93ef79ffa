"""What may be published: the noisy value with its noise, guarantee and plan, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import Floats, UsageError, open_unit
from .plans import Noise, Plan, parse_json, plan_from_dict, plan_to_dict
from .privacy import Privacy
from .version import VERSION

if TYPE_CHECKING:
    import pandas

FORMAT = "ellipsum.release/1"


@dataclass(frozen=True)
class ConfidenceEllipsoid:
    """All points that the published value's noise could explain at a level: {x : (x-v)^T V^-1 (x-v) <= q}."""

    value: Floats
    noise: Noise
    squared_radius: float
    level: float

    def contains(self, point: Any) -> bool:
        """Whether a point lies in the region; a direction without noise must match the value."""
        offset = np.asarray(point, float) - self.value
        ellipsoid = self.noise.ellipsoid
        flat = ellipsoid.along(offset)[ellipsoid.scale == 0]
        if (np.abs(flat) > 1e-9 * (1 + np.abs(self.value).max())).any():
            return False
        return self.noise.squared_length(offset) <= self.squared_radius


@dataclass(frozen=True, repr=False)
class Release:
    """A published statistic. Every field is a function of the noisy integers and of public numbers."""

    value: Floats
    plan: Plan
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
        from .postprocess import denoise

        return denoise(self, method, **options)

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
            "plan": plan_to_dict(self.plan),
        }
        if self.learned is not None:  # the noise is then that of all rounds together, not the plan's
            fields["noise"] = {**fields["noise"], "scale": self.noise.ellipsoid.scale.tolist()}
            fields["learned"] = self.learned
        return fields

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    @staticmethod
    def from_json(text: str) -> Release:
        return release_from_dict(parse_json(text))

    def save(self, path: str | Path) -> None:
        """Write the JSON to a file, atomically."""
        from .files import write_atomically

        write_atomically(Path(path), self.to_json() + "\n")

    def to_pandas(self) -> pandas.DataFrame:
        """One row a column: value, noise_std."""
        try:
            import pandas
        except ImportError:
            raise UsageError("to_pandas needs pandas. Install it with: pip install pandas") from None
        table = {"value": self.value, "noise_std": self.noise_std}
        return pandas.DataFrame(table, index=pandas.Index(self.names(), name="column"))

    def __repr__(self) -> str:
        from .texts import describe_release

        return describe_release(self)

    def _repr_html_(self) -> str:
        from .texts import release_html

        return release_html(self)


def release_from_dict(fields: Mapping[str, Any]) -> Release:
    """Inverse of `Release.to_dict`."""
    if str(_plan_format(fields)).startswith("ellipsum.friendly_plan/"):
        from .friendly.release import friendly_release_from_dict

        return friendly_release_from_dict(fields)
    if fields.get("format") != FORMAT:
        raise UsageError(f"not a release of format {FORMAT}. It may come from another version of ellipsum.")
    try:
        plan = plan_from_dict(fields["plan"])
        direction = fields["noise"]["count_direction"]
        scale, learned = fields["noise"].get("scale"), fields.get("learned")
        ellipsoid = plan.ellipsoid if scale is None else replace(plan.ellipsoid, scale=np.array(scale, float))
        noise = Noise(
            ellipsoid,
            float(fields["noise"]["scaled_std"]),
            None if direction is None else np.array(direction, float),
        )
        spent = Privacy.from_dict(fields["privacy"])
        return Release(
            value=np.array(fields["value"], float),
            plan=plan,
            noise=noise,
            secure=bool(fields["secure"]),
            count=fields["count"],
            denoised=fields["denoised"],
            privacy_spent=None if spent == plan.privacy else spent,
            learned=learned,
        )
    except (KeyError, TypeError):
        raise UsageError("the release has missing or unknown fields.") from None


def _plan_format(fields: Mapping[str, Any]) -> Any:
    plan = fields.get("plan")
    return plan.get("format") if isinstance(plan, Mapping) else None
