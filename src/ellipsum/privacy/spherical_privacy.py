"""The guarantee of spherical noise: its own exact curve, and a pure bound where it is composed [B1]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import UsageError, positive, whole
from ..util import json_codec
from .guarantee import Privacy
from .spherical_curve import ball_delta_upper, ball_epsilon_upper, certified_ratio

_NEAR = 1 + 1e-6
_EPSILONS, _DELTAS = (1e-4, 100.0), (1e-30, 0.5)  # where the curve is evaluated closely [B2]
_WRONG = "A guarantee has the fields ratio, dimension, neighbors and, for people, unit, and no others."


def safe_ratio(epsilon: float, delta: float, dimension: int) -> float:
    """The largest sensitivity / scale that is proved for (epsilon, delta); far out the pure one, which always is."""
    near = _EPSILONS[0] <= epsilon <= _EPSILONS[1] and _DELTAS[0] <= delta <= _DELTAS[1]
    return certified_ratio(epsilon, delta, dimension) if near else epsilon


@dataclass(frozen=True)
class BallPrivacy:
    """What one release under spherical noise spends: sensitivity / scale, in so many dimensions.

    delta(epsilon) is the exact curve, rounded up; it is pure at epsilon = ratio.
    """

    ratio: float
    dimension: int
    neighbors: str = "replace"
    unit: str = "row"

    slack = 0.0

    def __post_init__(self) -> None:
        positive("ratio", self.ratio)
        whole("dimension", self.dimension)
        self.as_pair()  # checks relation and unit

    def as_pair(self) -> Privacy:
        """For composition: a pure step of epsilon = ratio."""
        return Privacy.of_pure(self.ratio, self.neighbors, self.unit)

    def check_unit(self, people: bool) -> None:
        self.as_pair().check_unit(people)

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at this epsilon."""
        return ball_delta_upper(self.ratio, epsilon, self.dimension)

    def epsilon(self, delta: float) -> float:
        """Upper bound on epsilon at this delta; at 0 it is the ratio itself."""
        return ball_epsilon_upper(self.ratio, delta, self.dimension)

    def check_stated(self, stated: Mapping[str, float]) -> None:
        """An error unless the stated budget is what this spends, proved as it was made [B2]."""
        if not stated:
            return
        if "delta" not in stated:
            raise UsageError("this guarantee is not that of its stated budget. Make the plan anew.")
        epsilon, delta = stated["epsilon"], stated["delta"]
        allowed = safe_ratio(epsilon, delta, self.dimension)
        proved = self.ratio <= allowed or (self.ratio <= allowed * _NEAR and self.delta(epsilon) <= delta)
        if not proved or self.ratio * _NEAR < allowed:
            raise UsageError("this guarantee is not that of its stated budget. Make the plan anew.")

    @property
    def change(self) -> str:
        return self.as_pair().change

    def to_dict(self) -> dict[str, Any]:
        unit = {} if self.unit == "row" else {"unit": self.unit}
        return {"ratio": self.ratio, "dimension": self.dimension, "neighbors": self.neighbors, **unit}

    @classmethod
    def from_dict(cls, saved: Any) -> BallPrivacy:
        with json_codec.Fields(saved, _WRONG) as fields:
            return cls(
                fields.take("ratio", json_codec.number),
                fields.take("dimension", json_codec.integer(1, 1 << 40)),
                fields.take("neighbors", json_codec.text),
                fields.take("unit", json_codec.text, "row"),
            )

    def __str__(self) -> str:
        return f"spherical noise, sensitivity / scale = {self.ratio:.6g} in {self.dimension} dimensions ({self.change})"


Guarantee = Privacy | BallPrivacy


def guarantee_from_dict(saved: Any) -> Guarantee:
    """A guarantee of either kind."""
    if isinstance(saved, Mapping) and "ratio" in saved:
        return BallPrivacy.from_dict(saved)
    return Privacy.from_dict(saved)
