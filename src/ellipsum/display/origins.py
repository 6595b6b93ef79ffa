"""Where the region of the rows came from, how its noise was made, and what speaks against it, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import shown
from .subject import Table

BEFOREHAND = "The guarantee rests on this having been chosen without looking at the data."
EXACT = (
    "Rows are clipped to a region that was fixed beforehand and added up exactly, as integers; noise is drawn from a "
    "cryptographic stream and rounded correctly, once."
)
NOISE = {
    "gaussian": "The noise is Gaussian",
    "ball": "The noise is spherical: its density falls with its length",
    "box": "The noise is pure epsilon, in blocks of columns that share a radius",
}
_ROWS = {
    "box": f"Bounds of every column were stated by the caller; entries beyond them count as the bound. {BEFOREHAND}",
    "ball": f"Rows were stated to lie within a distance of a center; those beyond it are drawn in. {BEFOREHAND}",
    "normal": "Center and spread of roughly normal rows were stated by the caller; rows far out are drawn in. "
    f"{BEFOREHAND} Where they come from an earlier private release, add its cost.",
    "learned": "Center, spread and radius come from rows that were learned privately before, with a budget of their "
    "own, which is not part of this guarantee: add it.",
}


def origin(release: Any) -> list[str]:
    """Of a sum or a mean: stated, or learned within the same guarantee."""
    if release.learned is None:
        return origin_of(release.plan.rows)
    return [
        f"All that was stated is that no entry exceeds {np.max(release.learned.magnitude):g} in size. {BEFOREHAND} "
        "Where rows are clipped was learned privately, in steps that are part of the guarantee."
    ]


def origin_of(rows: Any) -> list[str]:
    return [_ROWS[rows.kind]]


def rounds_of(release: Any) -> list[Table]:
    """The rounds before a release, where there were any."""
    return [] if release.learned is None else [rounds_table([step.to_dict() for step in release.learned.steps])]


def rounds_table(rounds: Sequence[Any]) -> Table:
    """What each round cost, by itself."""
    lines = [[shown(step["name"]), _cost(step["privacy"]), str(step["width"])] for step in rounds]
    return Table("rounds, all within the guarantee", ["round", "cost by itself", "numbers"], lines)


def _cost(spent: Any) -> str:
    pure = ", ".join(f"epsilon {epsilon:.4g}" for epsilon in spent.get("pure", ()))
    return pure or f"mu {spent['mu']:.4g}"


def doubts(plan: Any) -> list[str]:
    """Why the budget may have been wasted, as the plan said beforehand; a last round is no plan of anybody's."""
    return [plan.doubt] if plan.stated and plan.doubt else []
