"""Everything that can be saved: one table of JSON formats, each with what reads it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from .errors import UsageError
from .util import json_codec
from .util.atomic_files import read_text

_RELEASE = "ellipsum.release/3"
_READERS = {
    "ellipsum.plan/3": "plans.plan:Plan.from_json",
    "ellipsum.groups/2": "plans.group_plan:GroupPlan.from_json",
    "ellipsum.histogram-plan/1": "plans.histogram_plan:HistogramPlan.from_json",
    "ellipsum.learning-plan/5": "learning.plan:LearningPlan.from_json",
    "ellipsum.quantile-plan/1": "plans.quantile_plan:QuantilePlan.from_json",
    "ellipsum.description-plan/1": "plans.description_plan:DescriptionPlan.from_json",
    "ellipsum.bounds/1": "releases.learned_bounds:Learned.from_json",
    "ellipsum.friendly_plan/2": "friendly.plan:FriendlyPlan.from_json",
    "ellipsum.no_center/2": "friendly.release:NoCenter.from_json",
    "ellipsum.rows-per-person/1": "apps.suggest_max_rows:RowsPerPerson.from_json",
}
"""Format -> what reads it, imported when used."""
_RELEASE_READERS = {
    "ellipsum.quantile-plan/1": "plans.quantile_plan:QuantilePlan.read_release",
    "ellipsum.description-plan/1": "plans.description_plan:DescriptionPlan.read_release",
    "ellipsum.plan/3": "plans.plan:Plan.read_release",
    "ellipsum.groups/2": "plans.group_plan:GroupPlan.read_release",
    "ellipsum.histogram-plan/1": "plans.histogram_plan:HistogramPlan.read_release",
    "ellipsum.friendly_plan/2": "friendly.release:FriendlyRelease.from_json",
}
"""Format of a release's plan -> what reads the release."""


def load(path: str | Path) -> Any:
    """Load what was saved to a file: a plan, a release, learned bounds or a projection, with all checks."""
    if Path(path).suffix == ".parquet":
        from .projection import Projection

        return Projection.load(path)
    return from_json(read_text(Path(path), "saved"))


def from_json(text: str) -> Any:
    """Read what `to_json` wrote: a plan, a release or learned bounds, with all checks."""
    saved = json_codec.parse(text)
    plan = saved.get("plan")
    if saved.get("format") == _RELEASE:
        reader = _reader(_RELEASE_READERS, plan.get("format") if isinstance(plan, Mapping) else None)
    else:
        reader = _reader(_READERS, saved.get("format"))
    if reader is None:
        raise UsageError("Unknown file format. The file may come from another version of ellipsum.")
    module, _, name = reader.partition(":")
    kind, _, method = name.partition(".")
    return getattr(getattr(import_module(f".{module}", __package__), kind), method)(text)


def _reader(readers: Mapping[str, str], kind: Any) -> str | None:
    return readers.get(kind) if isinstance(kind, str) else None
