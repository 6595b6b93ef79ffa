"""Learned bounds for later releases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..display.checklist import EXACT, tabulate_rounds
from ..display.document import Background, Document, TextTable, make_table
from ..display.recipe import learning_recipe
from ..display.result import Shown
from ..display.wording import SHOWN, describe_guarantee, insecure_facts, many, people_facts
from ..errors import Floats, UsageError, shown
from ..privacy.budget import stated_from_dict
from ..privacy.guarantee import Privacy
from ..request.people import People, people_from_dict
from ..rows import Box, LearnedRows, rows_from_dict
from ..util import json_codec
from ..util.atomic_files import Kept, Saved
from ..util.structural_equality import ValueEquality
from ..version import VERSION
from .learning_record import METHODS, Step, check_steps

if TYPE_CHECKING:
    from ..display.plots.strips import Sheet

FORMAT = "ellipsum.bounds/1"


@dataclass(frozen=True, repr=False)
class Learned(ValueEquality, Kept, Saved, Shown):
    """Bounds that `es.learn` estimated privately; everything in it may be published.

    Parameters
    ----------
    bounds : Box or LearnedRows
        For later releases: the lower and upper end of each column, or the ellipsoid that rows are clipped to.
    privacy : Privacy
        The guarantee of learning.
    steps : tuple of Step
        The rounds with their charges.
    method : str
        The method of `Unknown`.
    stated : mapping of str to float
        The requested budget.
    secure : bool
        Whether the noise was secret; False with `rng=`.
    people : People, optional
        The column that identifies people, and how the rows of a person were combined.
    warnings : tuple of str
        Why the bounds may not fit the data.

    Notes
    -----
    Privacy proof: [L7], [L8].

    Examples
    --------
    >>> import ellipsum as es
    >>> import numpy as np
    >>> ages = np.arange(5000.0).reshape(-1, 1) % 80
    >>> learned = es.learn(ages, es.Unknown(1000), epsilon=1, delta=1e-6)
    >>> later = es.mean(ages, learned.bounds, epsilon=1, delta=1e-6)
    >>> total = es.compose([learned.privacy, later.privacy])
    """

    bounds: Box | LearnedRows
    privacy: Privacy
    steps: tuple[Step, ...]
    method: str
    stated: Mapping[str, float]
    secure: bool
    people: People | None = None
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # Learned bounds may come from a file: their steps are checked against their guarantee.
        self.privacy.check_unit(self.people is not None)
        check_steps(self.privacy, self.steps, self.stated)

    @property
    def ends(self) -> tuple[Floats, Floats]:
        """The smallest and the largest value of each column within the bounds."""
        if isinstance(self.bounds, Box):
            return self.bounds.bounds()
        reach = self.bounds.region_reach
        return self.bounds.center - reach, self.bounds.center + reach

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "bounds": self.bounds.to_dict(),
            "privacy": self.privacy.to_dict(),
            "steps": [step.to_dict() for step in self.steps],
            "method": self.method,
            "stated": dict(self.stated),
            "secure": self.secure,
            "people": {} if self.people is None else self.people.to_dict(),
            "warnings": list(self.warnings),
        }

    def to_json(self) -> str:
        return json_codec.dump(self.to_dict())

    @staticmethod
    def from_json(text: str) -> Learned:
        with json_codec.Fields(
            json_codec.parse(text), "the learned bounds have missing, unknown or wrong fields."
        ) as fields:
            fields.check_format(FORMAT, f"not learned bounds of format {FORMAT}. Pass the file that es.learn wrote.")
            bounds = fields.take("bounds", rows_from_dict)
            if not isinstance(bounds, (Box, LearnedRows)):
                raise UsageError("Invalid file: learned bounds must be of kind 'box' or 'learned'.")
            return Learned(
                bounds=bounds,
                privacy=fields.take("privacy", Privacy.from_dict),
                steps=tuple(fields.take("steps", json_codec.list_of(Step.from_dict))),
                method=fields.take("method", json_codec.word(*METHODS)),
                stated=fields.take("stated", stated_from_dict),
                secure=fields.take("secure", json_codec.flag),
                people=fields.take("people", people_from_dict, None),
                warnings=tuple(fields.take("warnings", json_codec.list_of(json_codec.text))),
            )

    def sheet(self, order: str = "given", columns: Sequence[str] | None = None) -> Sheet:
        from .pictures import bounds_sheet, guarantee_notes

        low, high = self.ends
        names = self.bounds.columns or tuple(f"x{j + 1}" for j in range(low.size))
        notes = guarantee_notes(self.privacy, self.stated, self.secure)
        return bounds_sheet(low, high, names, notes, order, columns)

    def document(self, most: int | None = None) -> Document:
        low, high = self.ends
        names = self.bounds.columns or tuple(f"x{j + 1}" for j in range(low.size))
        lines = [[shown(name), f"{low[j]:.6g}", f"{high[j]:.6g}"] for j, name in enumerate(names[: most or SHOWN])]
        bounds = make_table(["column", "lower", "upper"], lines, low.size)
        steps = TextTable(["step", "cost"], [[step.name, _describe_cost(step.privacy)] for step in self.steps])
        facts = [("Privacy", describe_guarantee(self.privacy, self.stated)), ("Method", self.method)]
        facts += [*people_facts(self.people), *insecure_facts(self.secure)]
        return Document(f"Learned bounds, {many(low.size, 'column')}", [bounds, steps], facts, list(self.warnings))

    def background(self) -> Background:
        return Background(
            privacy=self.privacy,
            stated=self.stated,
            secure=self.secure,
            people=self.people,
            origin=["Only the magnitude of the values was passed. The bounds were learned privately at this cost."],
            origin_tables=[tabulate_rounds([(step.name, step.privacy) for step in self.steps])],
            mechanism=[EXACT, "Each round is a noisy sum over the rows; later rounds depend on earlier noisy results."],
            recipe=learning_recipe(self.stated, self.privacy.neighbors, self.method, self.people),
            sheet=self.sheet(),
        )


def _describe_cost(privacy: Privacy) -> str:
    return ", ".join(f"epsilon {epsilon:.4g}" for epsilon in privacy.pure) or f"mu {privacy.mu:.4g}"
