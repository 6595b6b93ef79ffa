"""A suggestion for `max_rows`: a private histogram of the number of rows per person."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import Budget, People, Privacy, UsageError
from ..display.document import Document, TextTable
from ..display.result import Printed
from ..display.wording import describe_guarantee, insecure_facts
from ..errors import MOST_WHOLE, Floats, choice
from ..noise import add_noise, shift_for
from ..privacy.budget import stated_from_dict
from ..privacy.guarantee import NEIGHBORS
from ..regions.ellipsoid import Ellipsoid
from ..request.documentation import public
from ..request.people import COUNTS
from ..row_maps.histograms import NormHistogram
from ..row_maps.maps import noise_units
from ..session import Outline, Progress, Session, read_options
from ..sources import Selection
from ..util import json_codec
from ..util.atomic_files import Kept
from ..version import VERSION

if TYPE_CHECKING:
    from ..ledger import DatasetAccount

_FORMAT = "ellipsum.rows-per-person/1"
_OCTAVES = 24
_MOST = tuple(2**k for k in range(_OCTAVES + 1))
_SURE = 3.0  # Smaller counts, in standard deviations, may be noise alone and are ignored.
_CONTRAST = 0.1  # Assumed difference between used rows and rows left out, relative to the radius of the rows.


@dataclass(frozen=True, repr=False)
class RowsPerPerson(Printed, Kept):
    """Noisy counts of people by their number of rows, and the `max_rows` with the smallest expected error.

    Attributes
    ----------
    max_rows : int
        The suggested value.
    most : tuple of int
        The largest number of rows in each line: 1, 2, 4, 8, ...; the last line has no upper limit.
    people : numpy.ndarray
        Noisy number of people in each line.
    std : float
        Standard deviation of the noise of each line.
    privacy : Privacy
        The privacy guarantee.

    Examples
    --------
    >>> import numpy as np, ellipsum as es
    >>> visits = {"patient": np.repeat(np.arange(3000), 4), "days": np.ones(12_000)}
    >>> es.suggest_max_rows(visits, "patient", epsilon=1, delta=1e-6).max_rows
    4
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
            json_codec.parse(text), "Invalid file: the rows per person have missing, unknown or wrong fields."
        ) as fields:
            fields.check_format(_FORMAT, f"not rows per person of format {_FORMAT}.")
            result = RowsPerPerson(
                fields.take("max_rows", json_codec.integer(1, MOST_WHOLE)),
                fields.take("most", json_codec.list_of(json_codec.integer(1, MOST_WHOLE))),
                fields.take("people", json_codec.numbers),
                fields.take("std", json_codec.number),
                fields.take("privacy", Privacy.from_dict),
                fields.take("stated", stated_from_dict),
                fields.take("secure", json_codec.flag),
            )
        result.privacy.check_unit(people=True)
        result.privacy.check_stated(result.stated)
        if result.privacy.slack or not result.privacy.mu or result.std != _std(result.privacy):
            raise UsageError("Integrity check failed: the noise of the rows per person does not match their guarantee.")
        if result.most != _MOST or result.people.size != len(_MOST):
            raise UsageError("Integrity check failed: the rows per person were modified after they were written.")
        return result

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
    rng: np.random.Generator | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    ledger: DatasetAccount | None = None,
    request_id: str | None = None,
) -> RowsPerPerson:
    """Release how many people have 1, 2, 3-4, 5-8, ... rows, and suggest `max_rows` for a later release.

    The suggestion is for ``per_person="rows"`` and a second budget of the same size. A larger `max_rows` needs more
    noise; a smaller one leaves out more rows.

    Parameters
    ----------
    privacy_id : str or int
        Name of the column that identifies people.

    Returns
    -------
    RowsPerPerson
        The noisy counts, and `max_rows`.

    Notes
    -----
    Privacy proof: [U8]. A person is one entry of the histogram.

    Examples
    --------
    >>> import numpy as np, ellipsum as es
    >>> visits = {"patient": np.repeat(np.arange(3000), 4), "days": np.ones(12_000)}
    >>> es.suggest_max_rows(visits, "patient", epsilon=1, delta=1e-6).max_rows
    4
    """
    spend = Budget.of(epsilon, delta, budget).as_typed()
    privacy = Privacy(spend.mu, 0.0, choice("neighbors", neighbors, NEIGHBORS), "person")
    people = People(privacy_id, COUNTS)
    reading = read_options(rng, threads, progress, ledger, request_id)
    with Session.open(data, Selection(columns), people, reading) as session:
        return session.run_or_load_stored(lambda: _counted(session, spend, privacy), RowsPerPerson.from_json)


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
    """The standard deviation of the noise of each line. A person is in one line only."""
    return noise_units(_by_octave(1).body.sensitivity(privacy.neighbors), privacy.mu)


def _by_octave(width: int) -> NormHistogram:
    """The histogram of the numbers of rows; every column of a person's row holds that number."""
    scale = np.zeros(width)
    scale[0] = 1.0
    return NormHistogram(Ellipsoid(np.zeros(width), scale), np.nextafter(2.0 ** np.arange(_OCTAVES), np.inf))


def _best(counts: Floats, std: float, mu: float) -> int:
    """The `max_rows` among 1, 2, 4, ... with the smallest expected error."""
    people = np.where(counts > _SURE * std, counts, 0.0)
    if not people.any():
        return 1
    rows = np.concatenate([[1.0], 0.75 * 2.0 ** np.arange(1, counts.size)])
    every = float((people * rows).sum())

    def error(cap: float) -> float:
        counted = float((people * np.minimum(rows, cap)).sum())
        return math.hypot(2 * cap / (mu * counted), _CONTRAST * (1 - counted / every))

    return int(min((2.0**k for k in range(counts.size)), key=error))
