"""What learning gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..display.document import Shown
from ..display.texts import INSECURE, guarantee, people_lines
from ..errors import UsageError
from ..plans.json import people_from_dict
from ..privacy.budget import stated_from_dict
from ..privacy.guarantee import Privacy
from ..releases.round_record import METHODS, Round, check_rounds
from ..request.people import People
from ..rows import LearnedRows, Normal, Rows, rows_from_dict
from ..util import json_codec
from ..util.atomic_files import Kept, Saved
from ..util.structural_equality import Alike
from ..version import VERSION

if TYPE_CHECKING:
    from ..display.plots.strips import Sheet
    from ..display.subject import Subject

FORMAT = "ellipsum.rows/1"


@dataclass(frozen=True, repr=False)
class Learned(Alike, Kept, Saved, Shown):
    """Rows as learned (publishable), what it cost, and the rounds it took."""

    saved_as: ClassVar[str] = "rows"
    rows: Rows
    privacy: Privacy
    rounds: tuple[Round, ...]
    method: str
    stated: Mapping[str, float]
    """The budget in the caller's own words."""
    secure: bool
    people: People | None = None
    """Where rows were people: by which column, and what became of a person's rows."""

    def __post_init__(self) -> None:
        # Learned rows may come from a file: their cost is checked against their claim every time they are made.
        self.privacy.check_unit(self.people is not None)
        check_rounds(self.privacy, self.rounds, self.stated)

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
            "people": {} if self.people is None else self.people.to_dict(),
        }

    def to_json(self) -> str:
        return json_codec.dump(self.to_dict())

    @staticmethod
    def from_json(text: str) -> Learned:
        with json_codec.Fields(
            json_codec.parse(text), "the learned rows have missing, unknown or wrong fields."
        ) as fields:
            fields.check_format(FORMAT, f"not learned rows of format {FORMAT}. Give the file that es.learn wrote.")
            rows = fields.take("rows", rows_from_dict)
            if not isinstance(rows, (LearnedRows, Normal)):
                raise UsageError("learned rows must be of kind 'learned' or 'normal'.")
            return Learned(
                rows=rows,
                privacy=fields.take("privacy", Privacy.from_dict),
                rounds=fields.take("rounds", json_codec.list_of(Round.from_dict)),
                method=fields.take("method", json_codec.word(*METHODS)),
                stated=fields.take("stated", stated_from_dict),
                secure=fields.take("secure", json_codec.flag),
                people=fields.take("people", people_from_dict, None),
            )

    def sheet(self, order: str = "given", columns: Sequence[str] | None = None) -> Sheet:
        from ..releases.pictures import learned_sheet

        return learned_sheet(self, order, columns)

    def subject(self) -> Subject:
        from ..releases.other_subjects import learned_subject

        return learned_subject(self)

    def __repr__(self) -> str:
        lines = [
            f"Learned by {self.method} in {len(self.rounds)} rounds: {self.rows}",
            f"  guarantee       {guarantee(self.privacy, self.stated)}",
            *people_lines(self.people),
        ]
        whole = _spent(self.privacy)
        lines += [f"  {step.name:<15} {_spent(step.privacy) / whole:.2%} of the budget" for step in self.rounds]
        if not self.secure:
            lines.append(f"  {INSECURE}")
        return "\n".join(lines)


def _spent(privacy: Privacy) -> float:
    """What adds up over rounds: squares of mu, or pure epsilons [L6]."""
    return sum(privacy.pure) if privacy.pure else privacy.mu**2
