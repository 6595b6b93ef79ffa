"""What an evaluation of a guarantee asks, along NIST SP 800-226, as far as a release can answer it."""

from __future__ import annotations

from dataclasses import dataclass

from .subject import Subject
from .texts import INSECURE

_YOU = "For you to answer"


@dataclass(frozen=True)
class Item:
    """A question, what the release says of it, and what only its publisher can say."""

    question: str
    answer: str
    open: str = ""


def checklist(subject: Subject, balance: str) -> list[Item]:
    """balance: what a ledger says, where one was used."""
    return [*_parameters(subject), *_computation(subject), *_around(subject, balance)]


def _parameters(subject: Subject) -> list[Item]:
    privacy, people = subject.privacy, subject.people
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
            subject.guarantee + ".",
            f"{_YOU}: is that enough for what these people risk?",
        ),
    ]


def _computation(subject: Subject) -> list[Item]:
    secure = "Noise came from the operating system's entropy and AES." if subject.secure else f"{INSECURE}."
    return [
        Item("What was computed (mechanism)", " ".join(subject.mechanism)),
        Item(
            "Where bounds came from (sensitivity)",
            " ".join(subject.origin),
            f"{_YOU}: were they chosen without looking at this data?",
        ),
        Item(
            "How far off it may be (utility and bias)",
            (f"{subject.intervals[:1].upper()}{subject.intervals[1:]}. " if subject.intervals else "")
            + ("There are warnings above." if subject.warnings else "Nothing that was counted speaks against it.")
            + " The error of having sampled these people and no others is not in it.",
            f"{_YOU}: are small groups served as well as large ones?",
        ),
        Item(
            "Floating point",
            "Sums are exact integers and the noise is rounded correctly on a grid: no low bits tell of the data.",
        ),
        Item("Randomness", secure),
        Item(
            "What was done afterwards (post-processing)",
            f"{subject.cleaned[:1].upper()}{subject.cleaned[1:]}: free of cost." if subject.cleaned else "Nothing.",
            f"{_YOU}: was the data looked at again? What is made of the release alone costs nothing more.",
        ),
    ]


def _around(subject: Subject, balance: str) -> list[Item]:
    beside = " ".join([*subject.side_releases, "All of it is within the guarantee."]) if subject.side_releases else ""
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
