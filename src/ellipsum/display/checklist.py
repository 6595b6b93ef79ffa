"""Texts of reports: the guarantee in plain language, the origin of the bounds, and a checklist.

The checklist has the questions of NIST SP 800-226, with the answers that a release gives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import shown
from ..privacy.guarantee import Privacy, PrivacyGuarantee, max_guess_accuracy, max_true_positive_rate, percent_up
from ..rows import Rows
from .document import Background, TextTable, make_table
from .wording import BOUNDS, INSECURE, describe_bounds, describe_guarantee, first_upper, format_up

_ALARMS = 0.01
_DELTAS = (0.0, 1e-9, 1e-6, 1e-4, 1e-2)
_FORMULA = "Pr[M(D) ∈ S] ≤ e^ε · Pr[M(D′) ∈ S] + δ"
_MOST_COLUMNS = 1000
BEFOREHAND = "The guarantee holds only if this was chosen without looking at the data."
EXACT = (
    "Rows are clipped to a region that was fixed before the data was read, and summed exactly, as integers. Noise is "
    "drawn from a cryptographic stream and rounded correctly, once."
)
_ORIGINS = {
    "box": f"The caller gave bounds for every column; values outside are clamped. {BEFOREHAND}",
    "ball": f"The caller gave a largest distance of rows from a center; rows beyond it are clipped. {BEFOREHAND}",
    "normal": "The caller gave a mean and a standard deviation for every column; distant rows are clipped. "
    f"{BEFOREHAND} If they come from an earlier private release, add its privacy loss.",
    "learned": "Center, spread and radius were learned privately before, with a budget of their own, which is not part "
    "of this guarantee: add it.",
}


def describe_origin(rows: Rows) -> str:
    """Describe the origin of the bounds."""
    return _ORIGINS[rows.kind]


def tabulate_bounds(rows: Rows, names: Sequence[str]) -> list[TextTable]:
    """A table of the bounds of each column; no table if nothing is known of single columns."""
    lines = [[shown(name), describe_bounds(rows, j)] for j, name in enumerate(names[:_MOST_COLUMNS])]
    table = make_table(["column", BOUNDS[rows.kind]], lines, len(names), "What is known of each column")
    return [table] if len(table.heads) > 1 else []


def tabulate_rounds(rounds: Sequence[tuple[str, Privacy]]) -> TextTable:
    """A table of the privacy loss of each step of learning."""
    lines = [[shown(name), _describe_cost(spent)] for name, spent in rounds]
    return TextTable(["step", "privacy loss"], lines, title="Steps, all within the guarantee")


def _describe_cost(spent: Privacy) -> str:
    return ", ".join(f"epsilon = {epsilon:.4g}" for epsilon in spent.pure) or f"mu = {spent.mu:.4g}"


def _describe_secret(privacy: PrivacyGuarantee) -> str:
    """Describe the secret that the attacker tries to learn."""
    unit = "one row" if privacy.unit == "row" else "one person with all of their rows"
    if privacy.neighbors == "replace":
        return f"which of two values {unit} has"
    return f"whether {unit} is in the data"


def describe_odds(privacy: PrivacyGuarantee) -> list[str]:
    """[P11] Describe the best possible guess of an attacker under the guarantee."""
    others = "row" if privacy.unit == "row" else "person's rows"
    accuracy, rate = percent_up(max_guess_accuracy(privacy)), percent_up(max_true_positive_rate(privacy, _ALARMS))
    return [
        f"Consider an attacker who knows every other {others} and tries to tell from this release "
        f"{_describe_secret(privacy)}. Without the release, guessing is right 50% of the time. With it, at most "
        f"{accuracy}% of guesses are right on average, whatever method the attacker uses.",
        f"At a false-positive rate of 1%, the true-positive rate of any attack is at most {rate}%.",
    ]


def state_definition(privacy: PrivacyGuarantee) -> list[str]:
    """The formal definition of the guarantee."""
    return [
        f"For all data sets D and D′ that differ in {privacy.change}, and every set S of outputs: {_FORMULA}, "
        "at every pair (ε, δ) of the privacy curve below. All pairs hold at once, and are rounded up."
    ]


def tabulate_curve(privacy: PrivacyGuarantee, stated: Mapping[str, float]) -> TextTable:
    """A table of points of the privacy curve, with the requested budget, which every guarantee satisfies."""
    points = {delta: privacy.epsilon(delta) for delta in _DELTAS}
    points |= {stated["delta"]: stated["epsilon"]} if "delta" in stated else {}
    lines = [[f"{delta:g}", format_up(points[delta])] for delta in sorted(points) if math.isfinite(points[delta])]
    return TextTable(("δ", "ε"), lines, title="Points of the privacy curve")


@dataclass(frozen=True)
class Item:
    """A question, the answer from the release, and a question that only the publisher can answer."""

    question: str
    answer: str
    open: str = ""


def checklist(background: Background, warned: bool, balance: str) -> list[Item]:
    """Make the checklist. warned: whether there are warnings. balance: the state of the ledger, if one was used."""
    return [*_parameters(background), *_computation(background, warned), *_around(background, balance)]


def _parameters(background: Background) -> list[Item]:
    privacy, people = background.privacy, background.people
    unit = f"One {privacy.unit}."
    if people is not None:
        unit += " All rows of a person together are protected."
    row = "Does every person have one row?" if people is None else "Does the column identify people?"
    relation = {
        "replace": "One of them is replaced; their number is public (bounded DP).",
        "add_remove": "One of them is added or removed; their number is private (unbounded DP).",
    }
    return [
        Item("Who is protected (unit of privacy)", unit, row),
        Item("Neighboring data sets", relation[privacy.neighbors]),
        Item(
            "How strong it is (epsilon and delta)",
            describe_guarantee(privacy, background.stated) + ".",
            "Is that enough for the risk to these people?",
        ),
    ]


def _computation(background: Background, warned: bool) -> list[Item]:
    secure = "Noise came from the operating system's entropy and AES." if background.secure else f"{INSECURE}."
    return [
        Item("What was computed (mechanism)", " ".join(background.mechanism)),
        Item(
            "Where bounds came from (sensitivity)",
            " ".join(background.origin),
            "Were they chosen without looking at this data?",
        ),
        Item(
            "How far off it may be (utility and bias)",
            (f"The confidence interval {background.intervals}. " if background.intervals else "")
            + ("There are accuracy warnings above." if warned else "No accuracy warnings.")
            + " Sampling error is not included.",
            "Are small groups served as well as large ones?",
        ),
        Item(
            "Floating point",
            "Sums are exact integers and the noise is rounded correctly on a grid: no low bits depend on the data.",
        ),
        Item("Randomness", secure),
        Item(
            "What was done afterwards (post-processing)",
            f"{first_upper(background.post_processing)}: free of cost." if background.post_processing else "Nothing.",
            "Was the data used again? Post-processing of the release alone has no privacy cost.",
        ),
    ]


def _around(background: Background, balance: str) -> list[Item]:
    beside = (
        " ".join([*background.side_releases, "All of it is within the guarantee."]) if background.side_releases else ""
    )
    return [
        Item(
            "What else is published (composition)",
            " ".join(filter(None, (beside, balance or "No ledger was used."))),
            "Which other releases of these people's data are there? Their privacy losses compose.",
        ),
        Item(
            "Who is trusted (trust model)",
            "The person who ran this had access to the data; the guarantee concerns everyone who sees the release.",
            "Who ran it, and where?",
        ),
        Item(
            "Other ways to leak (side channels)",
            "No message, warning, order or exit code depends on the data except through noisy values. Time, memory and "
            "power are not covered.",
            "Who can observe or time the machine?",
        ),
        Item(
            "Data collection, storage and access",
            "Not known here.",
            "How was it collected, who holds it, and when is it deleted?",
        ),
    ]
