"""What learning gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..display.checklist import EXACT, tabulate_rounds
from ..display.document import Background, Document, Table, make_table
from ..display.recipe import people_words, recipe
from ..display.result import Shown
from ..display.wording import SHOWN, describe_guarantee, insecure_facts, many, people_facts
from ..errors import Floats, UsageError, shown
from ..privacy.budget import stated_from_dict
from ..privacy.guarantee import Privacy
from ..releases.round_record import METHODS, Round, check_rounds
from ..request.people import People, people_from_dict
from ..rows import LearnedRows, Normal, Rows, rows_from_dict
from ..util import json_codec
from ..util.atomic_files import Kept, Saved
from ..util.structural_equality import Alike
from ..version import VERSION

if TYPE_CHECKING:
    from ..display.plots.strips import Sheet

FORMAT = "ellipsum.rows/1"


@dataclass(frozen=True, repr=False)
class Learned(Alike, Kept, Saved, Shown):
    """Rows as learned (publishable), what it cost, and the rounds it took."""

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

    def document(self, most: int | None = None) -> Document:
        columns = many(len(self._centers), "column")
        facts = [("Privacy", describe_guarantee(self.privacy, self.stated)), ("Method", self.method)]
        facts += people_facts(self.people)
        whole = _spent(self.privacy)
        lines = [[step.name, f"{_spent(step.privacy) / whole:.2%}"] for step in self.rounds]
        rounds = Table(["round", "share of the budget"], lines)
        table = self._table(most or SHOWN)
        return Document(f"Learned rows, {columns}", [table, rounds], [*facts, *insecure_facts(self.secure)])

    @property
    def _centers(self) -> Floats:
        rows: Any = self.rows
        return np.atleast_1d(np.asarray(rows.center, np.float64))

    def _table(self, most: int) -> Table:
        center, spread = self._centers, np.asarray(self.rows.spread(), np.float64)
        names = self.rows.columns or tuple(f"x{j + 1}" for j in range(center.size))
        lines = [[shown(name), f"{center[j]:.6g}", f"{spread[j]:.4g}"] for j, name in enumerate(names[:most])]
        return make_table(["column", "center", "spread"], lines, center.size)

    def background(self) -> Background:
        words = {"neighbors": self.privacy.neighbors, "method": self.method, **people_words(self.people)}
        return Background(
            privacy=self.privacy,
            stated=self.stated,
            secure=self.secure,
            people=self.people,
            origin=[
                "Only a bound on the size of every value was stated; all else was learned privately, at this cost."
            ],
            origin_tables=[tabulate_rounds([(step.name, step.privacy) for step in self.rounds])],
            mechanism=[EXACT, "Every round adds up a function of the rows; later rounds depend on earlier results."],
            recipe=recipe("learn", None, self.stated, words),
            sheet=self.sheet(),
        )


def _spent(privacy: Privacy) -> float:
    """What adds up over rounds: squares of mu, or pure epsilons [L6]."""
    return sum(privacy.pure) if privacy.pure else privacy.mu**2
