"""The documents of friendly means and their plans, and what their reports say beside them."""

from __future__ import annotations

import re
from typing import Any

from ..display.checklist import BEFOREHAND
from ..display.document import Background, Document, Facts
from ..display.recipe import friendly_recipe
from ..display.wording import MECHANISMS, describe_guarantee, insecure_facts, many, people_facts
from ..releases.documents import describe_coverage, release_document

_SUBSET = re.compile(r"a random subset of (\d+)(?: (rows|people))?")
_WEIGHTED = (
    "Every row is weighted by how many others lie near it; a noisy sum of the weights decides whether there is a mean "
    "at all, and how much noise it needs."
)
_GATE = "The noisy agreement decided whether a mean is published, and is published itself."


def plan_document(plan: Any, most: int | None = None) -> Document:
    """The plan of a friendly mean."""
    passes = f"passes with probability {plan.pass_probability():.4g} if all rows agree"
    facts = [
        ("Privacy", describe_guarantee(plan.privacy, plan.stated)),
        ("Mechanism", MECHANISMS[plan.mechanism]),
        *people_facts(plan.people),
        ("Radius", "found privately" if plan.radius is None else f"{plan.radius:.6g}"),
        ("Gate", f"{plan.gate}; {passes}"),
        ("Noise", f"standard error of {plan.forecast():.4g} radii in each column if all rows agree"),
    ]
    size = f"{plan.n:,} {plan.source}; no data read"
    return Document(f"Plan for a friendly mean of {many(plan.d, 'column')} ({size})", [], facts)


def friendly_document(release: Any, most: int | None = None) -> Document:
    """A friendly mean: the table of a release, and how well rows agree."""
    base = release_document(release, most)
    title = base.title.replace("private mean", "private friendly mean", 1)
    return Document(title, base.tables, [*base.facts, *_agreement_facts(release)], base.warnings)


def no_center_document(result: Any, most: int | None = None) -> Document:
    """No mean, since too few rows agree: publishable, and paid for."""
    plan = result.plan
    facts = [
        ("Privacy", describe_guarantee(plan.privacy, plan.stated)),
        *people_facts(plan.people),
        *_agreement_facts(result),
        *insecure_facts(result.secure),
    ]
    unit = plan.source.split()[0]
    title = f"NoCenter: too few of {plan.n:,} {unit} agree within radius {plan.radius:.6g}"
    return Document(title, [], facts, [result.advice])


def _agreement_facts(result: Any) -> Facts:
    plan = result.plan
    facts = [("Agreement", f"{result.agreement:.4g} (noisy; 1 if all rows agree)"), ("Radius", f"{plan.radius:.6g}")]
    found = _SUBSET.search(plan.source)
    if found is None:
        return facts
    total, unit = int(found[1]), found[2]
    if unit is not None:  # blocks: how many rows they share is not kept
        return [*facts, ("Used", f"a random subset of the {total:,} {unit}")]
    return [*facts, ("Used", f"a random subset of {plan.n:,} of {total:,} {plan.source.split()[0]}")]


def friendly_background(result: Any, release: Any) -> Background:
    """What the report of a friendly mean says beside it; release: where there is a mean."""
    plan = result.plan
    origin = f"It was stated by the caller. {BEFOREHAND}"
    if plan.radii:
        origin = f"It was found privately among {len(plan.radii)} that were stated, within the guarantee."
    return Background(
        privacy=result.privacy,
        stated=plan.stated,
        secure=result.secure,
        people=plan.people,
        origin=[f"Nothing bounds the rows: the mean is of those that agree with most others within a radius. {origin}"],
        mechanism=[_WEIGHTED, f"The mechanism is {MECHANISMS[plan.mechanism]}."],
        recipe=friendly_recipe(plan),
        intervals="" if release is None else describe_coverage(release),
        side_releases=[_GATE],
        post_processing=f"values were denoised by {release.denoised}" if release and release.denoised else "",
        sheet=None if release is None else release.sheet(),
    )
