"""Releases of learned rows in JSON, whose value follows from several rounds; the rounds are checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import Floats, UsageError
from ..privacy.budget import stated_from_dict
from ..privacy.guarantee import Privacy
from ..util import json_codec
from .decode import Counts, RowCounts, joined, mean_noise, sum_noise, with_stds
from .noise_covariance import Noise
from .postprocess import METHODS as DENOISED
from .release import DOCTORED, FORMAT, WRONG, Planned, Published, Release, check_counts, read_denoise_options
from .round_record import METHODS, Round, check_rounds

_NEAR = 1e-6  # what rounding may change


def learned_release(saved: Mapping[str, Any], make_plan: Callable[[Any], Any]) -> Release:
    """A release of learned rows, from a file."""
    with json_codec.Fields(
        {name: saved[name] for name in ("count", "counts", "privacy") if name in saved}, WRONG
    ) as fields:
        count = fields.maybe("count", json_codec.number)
        found = fields.maybe("counts", lambda counts: counts)
        spent = fields.take("privacy", Privacy.from_dict)
    with json_codec.Fields(saved, WRONG) as fields:
        fields.check_format(FORMAT, f"not a release of format {FORMAT}. It may come from another version of ellipsum.")
        plan = fields.take("plan", make_plan)
        counts = None if found is None else _counts_from_dict(found, plan)
        raw, noise = fields.take("raw", json_codec.numbers), fields.take("noise", lambda noise: _noise(noise, plan))
        release = Release(
            plan=plan,
            noisy=fields.take("noisy", json_codec.numbers),
            secure=fields.take("secure", json_codec.flag),
            denoised=fields.maybe("denoised", json_codec.word(*DENOISED)),
            denoise_options=fields.take("denoise_options", read_denoise_options),
            privacy_spent=spent,
            learned=fields.take("learned", learned_from_dict),
            published=Published(raw, noise, counts, count),
        )
        if raw.shape != (plan.d,) or release.noisy.shape != plan.stds.shape:
            raise UsageError(DOCTORED)
        release.check_shown(fields)
    if (count is None) != (plan.count_std is None) or (counts is None and plan.riders.width):
        raise UsageError(DOCTORED)
    check_learned(release, plan.privacy)
    if release.noise.std != 1:
        raise UsageError(DOCTORED)
    check_counts(release)
    _check_rows(release)
    _check_noise(release)
    return release


def _counts_from_dict(saved: Any, plan: Any) -> Counts:
    with json_codec.Fields(saved, WRONG) as fields:
        counts = Counts(
            fields.take("rows", json_codec.numbers),
            fields.take("stds", json_codec.numbers),
            fields.maybe("clipped", json_codec.numbers),
            fields.maybe("outside", json_codec.numbers),
        )
    octaves, cells = plan.riders.octaves, 0 if plan.riders.octaves else len(plan.riders.outside)
    sizes = counts.rows.size, counts.stds.size, _size(counts.clipped), _size(counts.outside)
    if sizes != (plan.d, plan.d, octaves, cells) or (counts.stds < 0).any():
        raise UsageError(DOCTORED)
    return counts


def _size(part: Floats | None) -> int:
    """0 where nothing was counted, which is not the same as counts of nothing."""
    return 0 if part is None else part.size or -1


def _noise(saved: Any, plan: Planned) -> Noise:
    with json_codec.Fields(saved, WRONG) as fields:
        std = fields.take("scaled_std", json_codec.number)
        names = ("count_direction", "stretch", "own")
        direction, stretch, own = (fields.maybe(name, json_codec.numbers, None) for name in names)
        ellipsoid = replace(plan.ellipsoid, scale=fields.take("scale", json_codec.numbers))
    ellipsoid.check()
    sized = all(part is None or part.size == plan.d for part in (direction, stretch, own))
    if std <= 0 or ellipsoid.width != plan.ellipsoid.width or not sized:
        raise UsageError(DOCTORED)
    return Noise(ellipsoid, std, direction, stretch, own)


def _check_rows(release: Release) -> None:
    """The counts have the noise of the plan and of the rounds before, and differ where they were counted."""
    if release.counts is None:
        return
    plan: Any = release.plan
    rows, stds, start = release.counts.rows, release.counts.stds, _start(release)
    own = np.broadcast_to(plan.absence_stds if plan.absence_stds.size else np.zeros(1), rows.shape)
    same = (own > 0) | (np.abs(start - rows) <= _NEAR * max(abs(start), 1.0))
    if not same.all() or (plan.riders.missing == "row" and (rows != rows[0]).any()):
        raise UsageError(DOCTORED)
    if not _alike(stds, _tally(release).stds, _NEAR * stds):
        raise UsageError(DOCTORED)


def _check_noise(release: Release) -> None:
    """One round's noise follows from the plan and, where counts are noisy, from those and the published value."""
    wanted, rounding = _expected(release.plan, release)
    noise = release.noise
    if not _alike(noise.stretch, wanted.stretch, _NEAR):
        raise UsageError(DOCTORED)
    tolerance = rounding + _NEAR * wanted.stds
    for part, expected in ((noise.count_direction, wanted.count_direction), (noise.own, wanted.own)):
        if (part is None) != (expected is None) or not _alike(part, expected, tolerance):
            raise UsageError(DOCTORED)


def _alike(part: Floats | None, expected: Floats | None, tolerance: Any) -> bool:
    if part is None or expected is None:
        return part is expected
    return bool((np.abs(part - expected) <= tolerance).all())


def _expected(plan: Any, release: Any) -> tuple[Noise, Floats]:
    """The noise of a release as `answers` has it, and how far rounding of the value may move its directions."""
    center, nothing, raw = plan.ellipsoid.center, np.zeros(plan.d), release.published.value
    counts = _tally(release)
    divisor = np.maximum(counts.rows, 1.0)
    if plan.statistic == "sum":
        if plan.needs_no_count:
            return Noise(*plan.noise_base), nothing
        noise, alike = sum_noise(plan, counts), bool((divisor == divisor[0]).all())
        stretched = not alike  # a learned mean, times each column's rows
        return replace(noise, stretch=divisor / float(divisor.max()) if stretched else None), nothing
    lever = counts.stds / divisor
    noise = mean_noise(plan, counts, raw - center)
    return replace(noise, stretch=None), 4 * np.finfo(float).eps * lever * (np.abs(center) + np.abs(raw))


def _tally(release: Release) -> RowCounts:
    """The counts of a release, with the noise that they have by its plan and by the rounds before."""
    plan: Any = release.plan
    rows = np.full(plan.d, _start(release)) if release.counts is None else release.counts.rows
    counts = with_stds(plan, rows, release.row_count)
    before = [Round.from_dict(step) for step in release.learned["rounds"]] if release.learned is not None else []
    measured = [step.privacy for step in before if step.name == "count"]
    if not measured or plan.count_std is None:
        return counts
    each = None if plan.people is None else plan.people.rows_each
    return joined(counts, plan.count_std, _count_std(measured[-1], each or 1))


def _count_std(spent: Privacy, each: int) -> float:
    """The noise of a round that counted rows [L6][L8]."""
    if not spent.pure:
        return each / spent.mu
    return math.sqrt(2) * each * (2 if spent.neighbors == "replace" else 1) / spent.pure[0]


def _start(release: Release) -> float:
    """The number of all rows, as far as it is known."""
    return float(release.plan.n or 0) if release.row_count is None else release.row_count


def learned_from_dict(saved: Any) -> dict[str, Any]:
    """What a release tells of the rounds before it."""
    with json_codec.Fields(saved, WRONG) as fields:
        return {
            "method": fields.take("method", json_codec.word(*METHODS)),
            "clip_bias": fields.maybe("clip_bias", json_codec.number),
            "magnitude": fields.maybe(
                "magnitude", json_codec.any_of(json_codec.number, json_codec.list_of(json_codec.number)), None
            ),
            "stated": fields.take("stated", stated_from_dict),
            "rounds": [step.to_dict() for step in fields.take("rounds", json_codec.list_of(Round.from_dict))],
            **({"far": fields.take("far", _far_from_dict)} if "far" in saved else {}),
        }


def _far_from_dict(saved: Any) -> dict[str, float]:
    """Rows that may lie far out, or be noise."""
    with json_codec.Fields(saved, WRONG) as fields:
        far = {name: fields.take(name, json_codec.number) for name in ("rows", "std", "radii")}
    if min(far.values()) <= 0:
        raise UsageError(DOCTORED)
    return far


def check_learned(release: Any, planned: Any) -> None:
    """The rounds fit into the guarantee [P5], which is that of the stated budget; the last one is the plan's."""
    rounds = [Round.from_dict(step) for step in release.learned["rounds"]]
    total = release.privacy.as_pair()
    if all(step.privacy.unit == "row" for step in rounds):  # so earlier versions wrote the rounds of people too
        total = replace(total, unit="row")
    check_rounds(total, rounds, release.stated)
    last, own = rounds[-1].privacy, planned.as_pair()
    if (last.mu, last.pure, last.slack) != (own.mu, own.pure, own.slack):
        raise UsageError(DOCTORED)
