"""What a report says beside the result: its guarantee in words, where bounds came from, and a checklist.

The checklist follows the questions of NIST SP 800-226, as far as a release can answer them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import shown
from ..privacy.attack_bounds import found_at, in_a_hundred, right_guesses
from ..privacy.guarantee import Privacy
from ..rows import Rows
from .document import Background, TextTable, make_table
from .wording import BOUNDS, INSECURE, Guarantee, describe_bounds, describe_guarantee, first_upper, format_up

_ALARMS = 0.01
_DELTAS = (0.0, 1e-9, 1e-6, 1e-4, 1e-2)
_FORMULA = "Pr[M(D) ∈ S] ≤ e^ε · Pr[M(D′) ∈ S] + δ"
_MOST_COLUMNS = 1000
_YOU = "For you to answer"
BEFOREHAND = "The guarantee rests on this having been chosen without looking at the data."
EXACT = (
    "Rows are clipped to a region that was fixed beforehand and added up exactly, as integers; noise is drawn from a "
    "cryptographic stream and rounded correctly, once."
)
_ORIGINS = {
    "box": f"Bounds of every column were stated by the caller; entries beyond them count as the bound. {BEFOREHAND}",
    "ball": f"Rows were stated to lie within a distance of a center; those beyond it are drawn in. {BEFOREHAND}",
    "normal": "Center and spread of roughly normal rows were stated by the caller; rows far out are drawn in. "
    f"{BEFOREHAND} Where they come from an earlier private release, add its cost.",
    "learned": "Center, spread and radius come from rows that were learned privately before, with a budget of their "
    "own, which is not part of this guarantee: add it.",
}


def describe_origin(rows: Rows) -> str:
    """Where the bounds of stated rows came from."""
    return _ORIGINS[rows.kind]


def tabulate_bounds(rows: Rows, names: Sequence[str]) -> list[TextTable]:
    """What was stated of each column, where something was."""
    lines = [[shown(name), describe_bounds(rows, j)] for j, name in enumerate(names[:_MOST_COLUMNS])]
    table = make_table(["column", BOUNDS[rows.kind]], lines, len(names), "What is known of each column")
    return [table] if len(table.heads) > 1 else []


def tabulate_rounds(rounds: Sequence[tuple[str, Privacy]]) -> TextTable:
    """What each round of learning cost, by itself."""
    lines = [[shown(name), _describe_cost(spent)] for name, spent in rounds]
    return TextTable(["round", "cost by itself"], lines, title="Rounds, all within the guarantee")


def _describe_cost(spent: Privacy) -> str:
    return ", ".join(f"epsilon = {epsilon:.4g}" for epsilon in spent.pure) or f"mu = {spent.mu:.4g}"


def _describe_secret(privacy: Guarantee) -> str:
    """What the guesser wants to know."""
    unit = "row" if privacy.unit == "row" else "person with all of their rows"
    if privacy.neighbors == "replace":
        return f"which of two possibilities one {unit} holds, whatever they are"
    return f"whether one {unit} is among the data at all"


def describe_odds(privacy: Guarantee) -> list[str]:
    """[P11] What the guarantee leaves to somebody who guesses."""
    others = "row" if privacy.unit == "row" else "person's rows"
    right, found = in_a_hundred(right_guesses(privacy)), in_a_hundred(found_at(privacy, _ALARMS))
    return [
        f"Suppose that somebody knows every other {others}, and everything else there is to know, and guesses from "
        f"this release {_describe_secret(privacy)}.",
        f"Of 100 such guesses at best {right} are right, whoever guesses and however; tossing a coin, 50 are right.",
        f"A test that gives a false alarm in 1 case of 100 gives a true one in at best {found} of 100.",
    ]


def state_definition(privacy: Guarantee) -> list[str]:
    """The definition that holds."""
    return [
        f"For all data sets D and D′ that differ in {privacy.change}, and every set S of outputs: {_FORMULA}, "
        "at every pair (ε, δ) of the curve below; all pairs hold at once, and are rounded up."
    ]


def tabulate_curve(privacy: Guarantee, stated: Mapping[str, float]) -> TextTable:
    """Points of the exact curve, the stated one among them, which every guarantee is proved to keep."""
    points = {delta: privacy.epsilon(delta) for delta in _DELTAS}
    points |= {stated["delta"]: stated["epsilon"]} if "delta" in stated else {}
    lines = [[f"{delta:g}", format_up(points[delta])] for delta in sorted(points) if math.isfinite(points[delta])]
    return TextTable(("δ", "ε"), lines, title="Points of the curve")


@dataclass(frozen=True)
class Item:
    """A question, what the release says of it, and what only its publisher can say."""

    question: str
    answer: str
    open: str = ""


def checklist(background: Background, warned: bool, balance: str) -> list[Item]:
    """warned: whether there are warnings; balance: what a ledger says, where one was used."""
    return [*_parameters(background), *_computation(background, warned), *_around(background, balance)]


def _parameters(background: Background) -> list[Item]:
    privacy, people = background.privacy, background.people
    unit = f"One {privacy.unit}."
    if people is not None:
        unit += " All rows of a person together are protected."
    row = f"{_YOU}: does nobody have more than one row?" if people is None else f"{_YOU}: does the column name people?"
    relation = {
        "replace": "One of them is replaced by anything else; how many there are is public.",
        "add_remove": "One of them is there or not; how many there are is private.",
    }
    return [
        Item("Who is protected (unit of privacy)", unit, row),
        Item("Which data sets must look alike (neighbors)", relation[privacy.neighbors]),
        Item(
            "How strong it is (epsilon and delta)",
            describe_guarantee(privacy, background.stated) + ".",
            f"{_YOU}: is that enough for what these people risk?",
        ),
    ]


def _computation(background: Background, warned: bool) -> list[Item]:
    secure = "Noise came from the operating system's entropy and AES." if background.secure else f"{INSECURE}."
    return [
        Item("What was computed (mechanism)", " ".join(background.mechanism)),
        Item(
            "Where bounds came from (sensitivity)",
            " ".join(background.origin),
            f"{_YOU}: were they chosen without looking at this data?",
        ),
        Item(
            "How far off it may be (utility and bias)",
            (f"The confidence interval {background.intervals}. " if background.intervals else "")
            + ("There are warnings above." if warned else "Nothing that was counted speaks against it.")
            + " Sampling error is not in it.",
            f"{_YOU}: are small groups served as well as large ones?",
        ),
        Item(
            "Floating point",
            "Sums are exact integers and the noise is rounded correctly on a grid: no low bits tell of the data.",
        ),
        Item("Randomness", secure),
        Item(
            "What was done afterwards (post-processing)",
            f"{first_upper(background.post_processing)}: free of cost." if background.post_processing else "Nothing.",
            f"{_YOU}: was the data looked at again? What is made of the release alone costs nothing more.",
        ),
    ]


def _around(background: Background, balance: str) -> list[Item]:
    beside = (
        " ".join([*background.side_releases, "All of it is within the guarantee."]) if background.side_releases else ""
    )
    return [
        Item(
            "What else is published (composition)",
            " ".join(filter(None, (beside, balance or "No ledger was stated."))),
            f"{_YOU}: which other releases of these people's data are there? Their costs add up.",
        ),
        Item(
            "Who is trusted (trust model)",
            "Whoever ran this saw the data as it is; the guarantee is for those who see what was published.",
            f"{_YOU}: who ran it, and where?",
        ),
        Item(
            "Other ways to leak (side channels)",
            "No message, warning, order or exit code depends on the data except through noisy values. Time, memory and "
            "power are not covered.",
            f"{_YOU}: can anybody watch or time the machine?",
        ),
        Item(
            "The data before all this (collection, storage, access)",
            "Not known here.",
            f"{_YOU}: how was it collected, who holds it, and when is it deleted?",
        ),
    ]
