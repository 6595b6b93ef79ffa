"""What learning gives back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..plans import parse_json
from ..privacy import Privacy
from ..rows import Normal, rows_from_dict
from ..texts import INSECURE, guarantee, people_lines
from ..version import VERSION
from .rounds import Round

FORMAT = "ellipsum.rows/1"


@dataclass(frozen=True, repr=False)
class Learned:
    """Rows as learned (a `Normal`, publishable), what it cost, and the rounds it took."""

    rows: Normal
    privacy: Privacy
    rounds: tuple[Round, ...]
    method: str
    stated: Mapping[str, float]
    """The budget in the caller's own words."""
    secure: bool
    people: Mapping[str, Any] = field(default_factory=dict)
    """Where rows were people: privacy_id, per_person and max_rows."""

    def of_people(self, people: Mapping[str, Any]) -> Learned:
        """The same, where rows were people."""
        rounds = tuple(replace(step, privacy=step.privacy.for_people()) for step in self.rounds)
        return replace(self, privacy=self.privacy.for_people(), rounds=rounds, people=people)

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "rows": self.rows.to_dict(),
            "privacy": self.privacy.to_dict(),
            "rounds": [step.to_dict() for step in self.rounds],
            "method": self.method,
            "stated": dict(self.stated),
            "secure": self.secure,
            "people": dict(self.people),
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    @staticmethod
    def from_json(text: str) -> Learned:
        fields = parse_json(text)
        if fields.get("format") != FORMAT:
            raise UsageError(f"not learned rows of format {FORMAT}. Give the file that es.learn or its save wrote.")
        try:
            rows = rows_from_dict(fields["rows"])
            if not isinstance(rows, Normal):
                raise UsageError("learned rows must be of kind 'normal'.")
            return Learned(
                rows=rows,
                privacy=Privacy.from_dict(fields["privacy"]),
                rounds=tuple(Round.from_dict(step) for step in fields["rounds"]),
                method=str(fields["method"]),
                stated={str(k): float(v) for k, v in fields["stated"].items()},
                secure=bool(fields["secure"]),
                people={**fields.get("people", {})},
            )
        except (KeyError, TypeError, AttributeError):
            raise UsageError("the learned rows have missing or unknown fields.") from None

    def save(self, path: str | Path) -> None:
        """Write the JSON to a file, atomically."""
        from ..files import write_atomically

        write_atomically(Path(path), self.to_json() + "\n")

    def __repr__(self) -> str:
        lines = [
            f"Learned by {self.method} in {len(self.rounds)} rounds: {self.rows}",
            f"  guarantee       {guarantee(self.privacy, self.stated)}",
            *people_lines(self.people),
        ]
        whole = self.privacy.mu**2
        lines += [f"  {step.name:<15} {step.privacy.mu**2 / whole:.2%} of the budget" for step in self.rounds]
        if not self.secure:
            lines.append(f"  {INSECURE}")
        return "\n".join(lines)
