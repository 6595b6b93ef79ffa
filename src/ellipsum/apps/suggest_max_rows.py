"""How many rows of a person to count: a private histogram of how many rows people have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..display.document import Document, TextTable
from ..display.result import Printed
from ..display.wording import describe_guarantee, insecure_facts
from ..errors import MOST_WHOLE, Floats, UsageError, choice
from ..noise import add_noise, shift_for
from ..privacy.budget import Budget, stated_from_dict
from ..privacy.guarantee import NEIGHBORS, Privacy
from ..regions.ellipsoid import Ellipsoid
from ..request.documentation import public
from ..request.people import COUNTS, People
from ..row_maps.grid import noise_units
from ..row_maps.histograms import NormHistogram
from ..session import Outline, Progress, Reading, Session, tab_of
from ..sources import Selection
from ..util import json_codec
from ..util.atomic_files import Kept
from ..version import VERSION

_FORMAT = "ellipsum.rows-per-person/1"
_OCTAVES = 24
_MOST = tuple(2**k for k in range(_OCTAVES + 1))
_SURE = 3.0  # stds: octaves whose count may be noise alone are left aside
_CONTRAST = 0.1  # how far rows beyond the cap are taken to differ from the others, in units of the rows' radius


@dataclass(frozen=True, repr=False)
class RowsPerPerson(Printed, Kept):
    """How many people have how many rows, noisy, and the cap that is forecast to give the least error.

    most: the upper ends of the octaves, 1, 2, 4, 8, ..., the last without end; people: how many have so many rows.
    """

    max_rows: int
    most: tuple[int, ...]
    people: Floats
    std: float
    privacy: Privacy
    stated: dict[str, float]
    secure: bool

    def to_json(self) -> str:
        return json_codec.dump(
            {
                "format": _FORMAT,
                "version": VERSION,
                "max_rows": self.max_rows,
                "most": list(self.most),
                "people": self.people.tolist(),
                "std": self.std,
                "privacy": self.privacy.to_dict(),
                "stated": dict(self.stated),
                "secure": self.secure,
            }
        )

    @staticmethod
    def from_json(text: str) -> RowsPerPerson:
        with json_codec.Fields(
            json_codec.parse(text), "rows per person have missing, unknown or wrong fields."
        ) as fields:
            fields.check_format(_FORMAT, f"not rows per person of format {_FORMAT}.")
            found = RowsPerPerson(
                fields.take("max_rows", json_codec.integer(1, MOST_WHOLE)),
                fields.take("most", json_codec.list_of(json_codec.integer(1, MOST_WHOLE))),
                fields.take("people", json_codec.numbers),
                fields.take("std", json_codec.number),
                fields.take("privacy", Privacy.from_dict),
                fields.take("stated", stated_from_dict),
                fields.take("secure", json_codec.flag),
            )
        found.privacy.check_unit(people=True)
        found.privacy.check_stated(found.stated)
        if found.privacy.slack or not found.privacy.mu or found.std != _std(found.privacy):
            raise UsageError("the noise of these rows per person is not that of their guarantee.")
        if found.most != _MOST or found.people.size != len(_MOST):
            raise UsageError("these rows per person were changed after they were published.")
        return found

    def document(self, most: int | None = None) -> Document:
        last = int(np.flatnonzero(self.people > _SURE * self.std).max(initial=0)) + 1
        ends = ["1", *(f"up to {end:,}" for end in self.most[1:-1]), "more"]
        lines = [[end, f"{count:,.0f}"] for end, count in list(zip(ends, self.people, strict=True))[:last]]
        facts = [
            ("Privacy", describe_guarantee(self.privacy, self.stated)),
            ("Noise", f"standard error {self.std:.3g} people in every line"),
            ("Suggestion", f"max_rows={self.max_rows} has the smallest expected error"),
        ]
        table = TextTable(["rows per person", "people"], lines)
        return Document("Differentially private rows per person", [table], [*facts, *insecure_facts(self.secure)])


@public
def suggest_max_rows(
    data: Any,
    privacy_id: str | int,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    neighbors: str = "replace",
    columns: list[str] | tuple[str, ...] | None = None,
    header: bool | None = None,
    rng: np.random.Generator | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    ledger: Any = None,
    dataset: str | None = None,
    key: str | None = None,
    analyst: str | None = None,
) -> RowsPerPerson:
    """Publish how many people have 1, 2, 3-4, 5-8, ... rows, and suggest `max_rows` for a later release.

    The suggestion is for `per_person="rows"` at the same budget again: it weighs the noise, which grows with the cap,
    against the rows beyond the cap that are left out.

    Guarantee [U8]: `privacy` of the result; a person is one entry of the histogram.
    """
    spend = Budget.of(epsilon, delta, budget).as_typed()
    privacy = Privacy(spend.mu, 0.0, choice("neighbors", neighbors, NEIGHBORS), "person")
    people = People(privacy_id, COUNTS)
    reading = Reading(rng, threads, progress, tab=tab_of(ledger, dataset, key, analyst))
    with Session.open(data, Selection(columns, header=header), people, reading) as session:
        return session.kept(lambda: _counted(session, spend, privacy), RowsPerPerson.from_json)


def _counted(session: Session, spend: Budget, privacy: Privacy) -> RowsPerPerson:
    histogram = _by_octave(session.source.width)
    std = _std(privacy)
    stream = session.spend(privacy, "rows per person", Outline(dict(spend.stated), {"octaves": _OCTAVES, "std": std}))
    shift = shift_for(std)
    noisy = add_noise(session.total(histogram, public=False).sums, std, shift, stream).to_float()
    counts: Floats = np.ldexp(noisy, shift)
    best = _best(counts, std, spend.mu)
    return RowsPerPerson(best, _MOST, counts, std, privacy, dict(spend.stated), session.secure)


def _std(privacy: Privacy) -> float:
    """The noise of every line: a person is one of them, in however many columns."""
    return noise_units(_by_octave(1).body.sensitivity(privacy.neighbors), privacy.mu)


def _by_octave(width: int) -> NormHistogram:
    """One-hot of the number of rows, which is every column of a person's row."""
    scale = np.zeros(width)
    scale[0] = 1.0
    return NormHistogram(Ellipsoid(np.zeros(width), scale), np.nextafter(2.0 ** np.arange(_OCTAVES), np.inf))


def _best(counts: Floats, std: float, mu: float) -> int:
    """The cap 1, 2, 4, ... of least forecast error, in units of the rows' radius."""
    people = np.where(counts > _SURE * std, counts, 0.0)
    if not people.any():
        return 1
    rows = np.concatenate([[1.0], 0.75 * 2.0 ** np.arange(1, counts.size)])
    every = float((people * rows).sum())

    def error(cap: float) -> float:
        kept = float((people * np.minimum(rows, cap)).sum())
        return math.hypot(2 * cap / (mu * kept), _CONTRAST * (1 - kept / every))

    return int(min((2.0**k for k in range(counts.size)), key=error))
