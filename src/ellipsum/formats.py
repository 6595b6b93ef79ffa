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
    "ellipsum.learning-plan/4": "learning.plan:LearningPlan.from_json",
    "ellipsum.group-learning-plan/3": "learning.grouped:GroupLearningPlan.from_json",
    "ellipsum.bounds/1": "learning.result:Learned.from_json",
    "ellipsum.friendly_plan/1": "friendly.plan:FriendlyPlan.from_json",
    "ellipsum.no_center/1": "friendly.release:NoCenter.from_json",
    "ellipsum.rows-per-person/1": "apps.suggest_max_rows:RowsPerPerson.from_json",
}
"""Format -> what reads it, imported when used."""
_RELEASE_READERS = {
    "ellipsum.plan/3": "plans.plan:Plan.read_release",
    "ellipsum.groups/2": "plans.group_plan:GroupPlan.read_release",
    "ellipsum.friendly_plan/1": "friendly.release:FriendlyRelease.from_json",
}
"""Format of a release's plan -> what reads the release."""


def load(path: str | Path) -> Any:
    """What was saved to a file: a plan, a release, learned bounds or a projection, checked as if it were made anew."""
    if Path(path).suffix == ".parquet":
        from .projection import Projection

        return Projection.load(path)
    return from_json(read_text(Path(path), "saved"))


def from_json(text: str) -> Any:
    """What `to_json` wrote: a plan, a release or learned bounds, checked as if it were made anew."""
    saved = json_codec.parse(text)
    plan = saved.get("plan")
    if saved.get("format") == _RELEASE:
        reader = _reader(_RELEASE_READERS, plan.get("format") if isinstance(plan, Mapping) else None)
    else:
        reader = _reader(_READERS, saved.get("format"))
    if reader is None:
        raise UsageError("not of a format that this version reads. It may come from another version of ellipsum.")
    module, _, name = reader.partition(":")
    kind, _, method = name.partition(".")
    return getattr(getattr(import_module(f".{module}", __package__), kind), method)(text)


def _reader(readers: Mapping[str, str], kind: Any) -> str | None:
    return readers.get(kind) if isinstance(kind, str) else None
