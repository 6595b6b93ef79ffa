"""Rounds as they were charged: what learning published on its way, and the check that they fit their budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import MOST_WHOLE, UsageError
from ..privacy.guarantee import Privacy, fits
from ..util import json_codec

METHODS = ("auto", "coinpress", "instance_optimal", "variance_aware", "friendly_core")
"""The names of the ways to learn."""


@dataclass(frozen=True)
class Round:
    """One charged round: what it was, what it cost, how many numbers it gave."""

    name: str
    privacy: Privacy
    width: int

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "privacy": self.privacy.to_dict(), "width": self.width}

    @staticmethod
    def from_dict(saved: Any) -> Round:
        with json_codec.Fields(saved, "a round has a name, its privacy and a width.") as fields:
            return Round(
                fields.take("name", json_codec.text),
                fields.take("privacy", Privacy.from_dict),
                fields.take("width", json_codec.integer(1, MOST_WHOLE)),
            )


def check_rounds(total: Privacy, rounds: Sequence[Round], stated: Mapping[str, float]) -> None:
    """An error unless the rounds, "final" the last, fit into a guarantee that is the stated budget's [P5]."""
    total.check_stated(stated)
    if not stated or not rounds or rounds[-1].name != "final" or not fits(total, [step.privacy for step in rounds]):
        raise UsageError("these rounds are not those of the stated budget. They were changed after they were made.")
