"""The facts of friendly means, learned rows and projections, for their reports."""

from __future__ import annotations

from typing import Any

from ..display.origins import BEFOREHAND, EXACT, NOISE, rounds_table
from ..display.recipe import call, friendly_recipe, people_words, recipe, script
from ..display.subject import Recipe, Subject
from ..display.texts import covers, rows_word
from ..errors import shown
from .report_tables import MOST_LINES, filled, values_table
from .subjects import many, people_facts

_FRIENDLY = (
    "Every row is weighted by how many others lie near it; a noisy sum of the weights decides whether there is a mean "
    "at all, and how much noise it needs."
)
_PROJECTED = "Every row is clipped, multiplied by a public random matrix and given Gaussian noise of its own."
_GATE = "The noisy agreement decided whether a mean is published, and is published itself."


def friendly_subject(release: Any) -> Subject:
    """A friendly mean."""
    plan = release.plan
    return Subject(
        title=f"Private friendly mean of {many(release.value.size, 'column')}",
        privacy=release.privacy,
        stated=release.stated,
        secure=release.secure,
        people=plan.people,
        facts=[("rows", rows_word(plan)), *_friendly_facts(release)],
        origin=_friendly_origin(plan),
        mechanism=[_FRIENDLY, f"{NOISE[plan.mechanism]}."],
        recipe=friendly_recipe(plan),
        tables=[values_table(release)],
        intervals=covers(release),
        warnings=release.warnings,
        side_releases=[_GATE],
        cleaned=f"values were denoised by {release.denoised}" if release.denoised else "",
        sheet=release.sheet(),
    )


def no_center_subject(result: Any) -> Subject:
    """No mean, since too few rows agree: publishable, and paid for."""
    plan = result.plan
    return Subject(
        title="No center was found",
        privacy=result.privacy,
        stated=plan.stated,
        secure=result.secure,
        people=plan.people,
        facts=[("outcome", "too few agree within the radius"), *_friendly_facts(result)],
        origin=_friendly_origin(plan),
        mechanism=[_FRIENDLY, f"{NOISE[plan.mechanism]}."],
        recipe=friendly_recipe(plan),
        warnings=[result.advice],
        side_releases=[_GATE],
    )


def _friendly_facts(result: Any) -> list[tuple[str, str]]:
    plan = result.plan
    return [
        ("used", f"{plan.n} {plan.source}"),
        ("radius", f"{plan.radius:.6g}"),
        ("agreement", f"{result.agreement:.4g} (noisy; 1 where all agree)"),
        *people_facts(plan.people),
    ]


def _friendly_origin(plan: Any) -> list[str]:
    stated = f"It was stated by the caller. {BEFOREHAND}"
    if plan.radii:
        stated = f"It was found privately among {len(plan.radii)} that were stated, within the guarantee."
    return [f"Nothing bounds the rows: the mean is of those that agree with most others within a radius. {stated}"]


def learned_subject(learned: Any) -> Subject:
    """Rows as learned."""
    privacy, (low, high) = learned.privacy, learned.ends
    names = learned.bounds.columns or tuple(f"x{j + 1}" for j in range(low.size))
    lines = [[shown(name), f"{low[j]:.6g}", f"{high[j]:.6g}"] for j, name in enumerate(names[:MOST_LINES])]
    words = {"neighbors": privacy.neighbors, "method": learned.method, **people_words(learned.people)}
    return Subject(
        title=f"Bounds as learned, {many(low.size, 'column')}",
        privacy=privacy,
        stated=learned.stated,
        secure=learned.secure,
        people=learned.people,
        facts=[("method", learned.method), ("steps", str(len(learned.steps))), *people_facts(learned.people)],
        origin=["Only a bound on the size of every entry was stated; all else was learned privately, at this cost."],
        origin_tables=[rounds_table([step.to_dict() for step in learned.steps])],
        mechanism=[EXACT, "Every round adds up a function of the rows; later rounds are chosen from earlier results."],
        recipe=recipe("learn", None, learned.stated, words),
        tables=[filled("learned bounds", ["column", "low", "high"], lines, low.size)],
        sheet=learned.sheet(),
    )


def projection_subject(projection: Any) -> Subject:
    """Rows as a few private numbers each; the numbers themselves are in a file of their own."""
    unit = "row" if projection.people is None else "person"
    what = "rows" if projection.people is None else "people"
    words = {"adversary": projection.adversary, "calibration": projection.calibration}
    made = call("project", ["data", str(projection.k), "rows", "epsilon=...", "delta=..."], words)
    size = f"n = {projection.n}, {many(projection.d, 'column')}; {projection.k} numbers for each {unit}"
    return Subject(
        title=f"Private projection of {projection.n} {what}",
        privacy=projection.privacy,
        stated={},
        secure=projection.secure,
        people=projection.people,
        facts=[
            (what, size),
            ("noise std", f"{projection.noise_std:.6g} in every number, {projection.region.metric} metric"),
            ("adversary", projection.adversary),
            ("forecast", projection.forecast().verdict),
            *people_facts(projection.people),
        ],
        origin=[f"The region that holds the rows was stated by the caller. {BEFOREHAND}"],
        mechanism=[_PROJECTED],
        recipe=Recipe(script([f"projection = {made}"])),
        intervals="estimates of distances have standard errors of their own",
    )
