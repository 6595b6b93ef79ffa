"""Releases of every kind: importing this lets `Release.from_json` read any of them, and their plans be made again."""

from .friendly import FriendlyRelease
from .plans.group_plan import GroupPlan
from .plans.plan import Plan
from .releases.group_description import GroupDescription
from .releases.group_release import GroupRelease
from .releases.release import Release
from .request import request  # noqa: F401

__all__ = ["FriendlyRelease", "GroupDescription", "GroupPlan", "GroupRelease", "Plan", "Release"]
