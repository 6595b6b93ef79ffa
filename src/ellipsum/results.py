"""Releases of every kind: importing this lets `Release.from_json` read any of them, and their plans be made again."""

from . import request  # noqa: F401
from .friendly import FriendlyRelease
from .groups import GroupDescription, GroupPlan, GroupRelease
from .plans import Plan
from .release import Release

__all__ = ["FriendlyRelease", "GroupDescription", "GroupPlan", "GroupRelease", "Plan", "Release"]
