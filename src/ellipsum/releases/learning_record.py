"""The record of learning in a release: the rounds with their cost, and bounds on the bias of clipping."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import MOST_WHOLE, Floats, UsageError
from ..privacy.budget import stated_from_dict
from ..privacy.budget_split import check_split
from ..privacy.guarantee import Privacy, fits
from ..util import json_codec
from ..util.structural_equality import ValueEquality
from .decode import MissingCounts

METHODS = ("auto", "coinpress", "instance_optimal", "variance_aware", "friendly_core")
"""Names of the learning methods."""
RELEASE = "release"
"""The name of the last step."""
LOOK = "look"
"""The name of the step that counts missing values."""
_WRONG = "Invalid release file: the record of learning has missing, unknown or wrong fields."


@dataclass(frozen=True)
class Step:
    """One charged round: its name, its cost, and the number of values it released."""

    name: str
    privacy: Privacy
    width: int

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "privacy": self.privacy.to_dict(), "width": self.width}

    @staticmethod
    def from_dict(saved: object) -> Step:
        with json_codec.Fields(saved, "a step has a name, its privacy and a width.") as fields:
            return Step(
                fields.take("name", json_codec.text),
                fields.take("privacy", Privacy.from_dict),
                fields.take("width", json_codec.integer(1, MOST_WHOLE)),
            )


def check_stated(total: Privacy, stated: Mapping[str, float]) -> None:
    """Raise unless a guarantee is the one of the requested budget: Gaussian, pure, or both side by side [L8]."""
    if total.mu and total.pure:
        check_split(total, stated)
    else:
        total.check_stated(stated)


def check_steps(total: Privacy, steps: Sequence[Step], stated: Mapping[str, float]) -> None:
    """Raise unless the steps fit into a guarantee of the requested budget [P5][P10]."""
    check_stated(total, stated)
    if not stated or not steps or not fits(total, [step.privacy for step in steps]):
        raise UsageError(
            "Integrity check failed: the steps do not match the requested budget. The file was modified after "
            "it was written."
        )


@dataclass(frozen=True)
class Learning(ValueEquality):
    """The learning before a release with `Unknown` bounds. All its numbers are noisy or public."""

    method: str
    stated: Mapping[str, float]
    """The requested budget."""
    magnitude: Floats
    steps: tuple[Step, ...]
    bias: Floats
    """(2, d): without noise, the true sum of a column is at most bias[0] below and bias[1] above the released one."""
    found: NDArray[np.bool_]
    """Whether each column was found; only the magnitude of another column is known."""
    unnoticed: int = 0
    """How many outliers could go unnoticed."""
    warnings: tuple[str, ...] = ()
    absent: MissingCounts | None = None
    """The missing values, if they were counted before the release."""

    def check(self, total: Privacy, release: Privacy, d: int, rows_each: int = 1) -> None:
        """An error unless the steps fit the guarantee, the last one is the release's, and every array has its size.

        Counts of missing values have at least the noise of their step: an edited file cannot claim less.
        """
        check_steps(total, self.steps, self.stated)
        last = self.steps[-1].privacy
        sizes = self.bias.shape, self.found.size, self.magnitude.size
        alike = (last.mu, last.pure, last.slack) == (release.mu, release.pure, release.slack)
        if self.steps[-1].name != RELEASE or not alike or sizes != ((2, d), d, d):
            raise UsageError(
                "Integrity check failed: the release is not the last of its steps. The file was modified "
                "after it was written."
            )
        if self.absent is not None:
            stds = self.absent.stds
            least = max((_least_std(step.privacy, d) for step in self.steps if step.name == LOOK), default=math.inf)
            if stds.size != d or (stds[stds > 0] < least * rows_each * (1 - 2.0**-40)).any():
                raise UsageError(
                    "Integrity check failed: the noise of missing values does not match its step. The file "
                    "was modified after it was written."
                )

    def widened(self, low: Floats, high: Floats, rows: Floats, whole: bool) -> tuple[Floats, Floats]:
        """Ends of intervals, (..., d), widened by the bias of clipping; rows: the number of values of each column.

        whole: True for sums, False for means. The interval of a column that was not found is its magnitude [L11].
        """
        times = rows if whole else 1.0
        below, above = (part if whole else part / rows for part in self.bias)
        farthest = self.magnitude * times
        return np.where(self.found, low - below, -farthest), np.where(self.found, high + above, farthest)

    def to_dict(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "stated": dict(self.stated),
            "magnitude": self.magnitude.tolist(),
            "steps": [step.to_dict() for step in self.steps],
            "bias": self.bias.tolist(),
            "found": self.found.tolist(),
            "unnoticed": self.unnoticed,
            "warnings": list(self.warnings),
            "absent": None if self.absent is None else self.absent.to_dict(),
        }

    @staticmethod
    def from_dict(saved: object) -> Learning:
        with json_codec.Fields(saved, _WRONG) as fields:
            return Learning(
                method=fields.take("method", json_codec.word(*METHODS)),
                stated=fields.take("stated", stated_from_dict),
                magnitude=fields.take("magnitude", json_codec.numbers),
                steps=tuple(fields.take("steps", json_codec.list_of(Step.from_dict))),
                bias=fields.take("bias", _not_negative),
                found=np.array(fields.take("found", json_codec.list_of(json_codec.flag)), np.bool_),
                unnoticed=fields.take("unnoticed", json_codec.integer(0, MOST_WHOLE)),
                warnings=tuple(fields.take("warnings", json_codec.list_of(json_codec.text))),
                absent=fields.maybe("absent", _absent),
            )


def _least_std(spend: Privacy, d: int) -> float:
    """The noise of one histogram for each of d columns: sensitivity sqrt(2 d) or sqrt(d), or 2 d or d in l1 [L2]."""
    sides = 2 if spend.neighbors == "replace" else 1
    if spend.mu:
        return math.sqrt(sides * d) / spend.mu
    return math.sqrt(2) * sides * d / max(spend.pure, default=math.inf)


def _not_negative(saved: object) -> Floats:
    numbers = json_codec.matrix(saved)
    if (numbers < 0).any():
        raise json_codec.Wrong
    return numbers


def _absent(saved: object) -> MissingCounts:
    with json_codec.Fields(saved, _WRONG) as fields:
        counts = MissingCounts(*(fields.take(name, json_codec.numbers) for name in ("rows", "stds", "fill")))
    if (counts.stds < 0).any() or not counts.rows.size == counts.stds.size == counts.fill.size:
        raise json_codec.Wrong
    return counts
