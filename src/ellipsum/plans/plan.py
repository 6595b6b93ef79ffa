"""The plan of one release: the proof of its noise, its run, and plans from files.

docs/proofs/plans.md: [U1] one release, [U2] unknown n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from ..errors import Floats, UsageError
from ..kernels.accumulate import Partial
from ..noise import Stream
from ..noise.block_law import BlockLaw
from ..noise.law import NoiseLaw, SphericalLaw
from ..privacy.spherical_curve import Guarantee, guarantee_from_dict
from ..regions.ellipsoid import Clip, Ellipsoid
from ..releases.description import Description
from ..releases.release import Release
from ..request.request import SUMS, Request
from ..row_maps.auxiliary_counts import auxiliary_counts_from_dict
from ..row_maps.maps import GRID_BITS, WIDE_GRID_BITS, ClampedMap
from ..session import Session
from ..util import json_codec
from .base import WRONG
from .forecast import VectorForecast

WIDEST_COUNT_WEIGHT = 2.0**30
_MOST_ROWS = 2.0**64  # More rows than any data, if n is private.
_FARTHEST_NOISE = 64.0  # Standard deviations, exceeded with probability below 1e-890.


class OutOfRange(UsageError):
    """Raised for numbers outside the range of doubles. Another mechanism may have smaller ones."""

    def __init__(self) -> None:
        super().__init__("The noise of this plan or its expected error is too large for doubles. Rescale the columns.")


@dataclass(frozen=True, repr=False)
class Plan(VectorForecast):
    """Every public number of one release, made without data by `es.plan`.

    Attributes
    ----------
    request : Request
        The request of the caller.
    privacy : Privacy
        The guarantee of `release` on any data, for its neighboring relation [U1].
    expected_error : ndarray of shape (d,)
        Root mean square error of each column: what the release's `standard_error` will be for data as described.
    noise_std, noise_cov : ndarray
        Standard deviation and covariance of the noise of the sums, divided by n for means.
    expected_squared_error, noise_error, clipping_error : float
        Expected squared norm of the error, and its two parts.
    mechanism : str
        The noise distribution.
    clip_radius : float or None
        The radius that Normal rows are clipped to.
    warning : str or None
        Why the result may carry no information.

    Examples
    --------
    >>> import ellipsum as es
    >>> plan = es.plan("mean", {"age": (0, 120)}, n=1000, epsilon=1, delta=1e-6)
    >>> plan.expected_error.shape
    (1,)
    >>> release = plan.release([[30.0], [50.0]] * 500)
    """

    format: ClassVar[str] = "ellipsum.plan/3"
    read_privacy: ClassVar[json_codec.Kind[Guarantee]] = guarantee_from_dict

    def __post_init__(self) -> None:
        # A plan may come from a file, so every construction checks that the noise gives the guarantee.
        self.check_claim()
        self.ellipsoid.check()
        if self.request.d != self.ellipsoid.center.size or self.grouping is not None:
            raise UsageError("Invalid plan file: the plan is not that of its request. Create a new plan.")
        if not (math.isfinite(self.noise_units) and self.grid_bits in (GRID_BITS, WIDE_GRID_BITS)):
            raise UsageError("Invalid plan file: the grid or the noise is not a valid number. Create a new plan.")
        self._check_count()
        self._check_squares()
        if self.law is not None and self.noise_units != 0:
            raise UsageError("Invalid plan file: the plan has two noise distributions. Create a new plan.")
        self.noise_law.prove(self.privacy, self.sensitivity, self.column_sensitivities)
        if self.stated:  # The plan of one group has no budget; the plan of all groups checks the range.
            self.check_range()

    def _check_count(self) -> None:
        """Check that the number of rows is public, or one more coordinate, or not needed [U2][U8]."""
        if self.public_rows:
            valid = self.count_units == 0 and self.n is not None
        elif self.neighbors == "replace" and self.n is None:
            valid = False
        else:
            most = math.ldexp(WIDEST_COUNT_WEIGHT, self.grid_bits)
            valid = (0 if self.statistic in SUMS else 1) <= self.count_units <= most
        if not valid or self.privacy.slack:
            raise UsageError("Invalid plan file: the count of rows does not match the guarantee. Create a new plan.")

    def _check_squares(self) -> None:
        """Raise an error unless exactly the plans of descriptions have squares beside the values."""
        squares = self.auxiliary.squares
        valid = (self.statistic == "describe") == (squares.size > 0)
        if valid and squares.size:
            limits = self.row_map.limits if isinstance(self.row_map, ClampedMap) else np.zeros(squares.size)
            valid = self.clamped and bool(((squares > 0) == (limits > 0)).all())
        if not valid:
            raise UsageError("Invalid plan file: the squares do not match the statistic. Create a new self.")

    def check_range(self) -> None:
        """Raise an error if noise, results or forecasts could exceed the range of doubles."""
        center, unscale = float(np.abs(self.ellipsoid.center).max()), float(self.ellipsoid.unscale.max())
        rows = float(self.n) if self.public_rows and self.n is not None else _MOST_ROWS
        noise = unscale * self.scaled_std + center * (self.count_std or 0.0)
        farthest = (center + unscale) * rows + _FARTHEST_NOISE * noise
        square = noise * noise * self.ellipsoid.width + self.sum_clipping_error
        if not (math.isfinite(farthest) and math.isfinite(square) and math.isfinite(self.center_spread)):
            raise OutOfRange

    # Running --------------------------------------------------------------------------------------------

    def run(self, session: Session) -> Release:
        """[U1] Exact sums -> correctly rounded noisy integers -> the release. All sources give the same sums."""
        stream = self.charge(session)
        return self.publish(self.noisy_sums(session.total(self.row_map, self.public_rows), stream), session.secure)

    def noisy_sums(self, partial: Partial, stream: Stream) -> Floats:
        """[U1] The noisy sums in the scaled space. If n is private, the weighted count comes last."""
        if self.public_rows:
            self.check_rows(partial.rows)
        last = [partial.rows * self.count_units] if self.count_units else []
        noisy = self.noise_law.add(partial.sums, last, stream)
        noisy *= 2.0**-self.grid_bits  # Exact, since it is a power of two.
        return noisy

    def publish(self, scaled: Floats, secure: bool) -> Release:
        """Make the release from noisy sums in the scaled space: post-processing only [U3][U6]."""
        return self.release_class(self, scaled, secure)

    @property
    def release_class(self) -> type[Release]:
        return Description if self.statistic == "describe" else Release

    # Saved ----------------------------------------------------------------------------------------------

    def own_fields(self) -> dict[str, Any]:
        ellipsoid = self.ellipsoid
        return {
            "center": ellipsoid.center.tolist(),
            "scale": ellipsoid.scale.tolist(),
            "axes": None if ellipsoid.axes is None else ellipsoid.axes.tolist(),
            "grid_bits": self.grid_bits,
            "count_units": self.count_units,
            "noise_units": self.noise_units,
            "clip_radius": self.clip_radius,
            "sum_clipping_error": self.sum_clipping_error,
            "center_spread": self.center_spread,
            "auxiliary": self.auxiliary.to_dict(),
            "law": None if self.law is None else self.law.to_dict(),
        }

    @classmethod
    def from_dict(cls, saved: object) -> Self:
        plan = super().from_dict(saved)
        if min(plan.sum_clipping_error, plan.center_spread, plan.clip_radius or 0.0) < 0:
            raise UsageError(WRONG)
        plan.check_region()
        return replace(plan, center_spread=plan.rows.resolve(plan.d).distance(plan.d, plan.n))

    @classmethod
    def from_fields(cls, fields: json_codec.Fields, request: Request, privacy: Guarantee) -> Self:
        return cls(
            request=request,
            privacy=privacy,
            ellipsoid=Ellipsoid(
                fields.take("center", json_codec.numbers),
                fields.take("scale", json_codec.numbers),
                fields.maybe("axes", json_codec.matrix),
            ),
            grid_bits=fields.take("grid_bits", json_codec.integer(1, WIDE_GRID_BITS)),
            count_units=fields.take("count_units", json_codec.integer(0, 1 << 80)),
            noise_units=fields.take("noise_units", json_codec.number),
            clip_radius=fields.maybe("clip_radius", json_codec.number),
            sum_clipping_error=fields.take("sum_clipping_error", json_codec.number),
            center_spread=fields.take("center_spread", json_codec.number),
            auxiliary=fields.take("auxiliary", auxiliary_counts_from_dict),
            law=fields.maybe("law", _law_from_dict),
        )

    def check_region(self) -> None:
        """Raise an error unless the region and the forecast of a plan from a file are those of its bounds."""
        if self.rows.kind == "unknown":
            raise UsageError(WRONG)
        region = Clip(
            self.ellipsoid, self.clip_radius, self.sum_clipping_error, self.center_spread, self.auxiliary.pull
        )
        base, std = self.noise_base
        if not self.rows.resolve(self.d).fits(region, self.n, std**2 * base.trace):
            raise UsageError("Invalid plan file: the region or the expected error does not match the bounds.")


def _law_from_dict(saved: object) -> NoiseLaw:
    """Read a noise distribution that is not Gaussian; Gaussian noise is stored as `noise_units`."""
    with json_codec.Fields(saved, WRONG) as fields:
        kind = fields.take("kind", json_codec.word(SphericalLaw.kind, BlockLaw.kind))
        return SphericalLaw.from_fields(fields) if kind == SphericalLaw.kind else BlockLaw.from_fields(fields)
