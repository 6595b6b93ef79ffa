"""Releases of every kind: importing this lets `Release.from_json` read any of them."""

from .friendly import FriendlyRelease
from .groups import GroupRelease
from .plans import Plan
from .release import Release

__all__ = ["FriendlyRelease", "GroupRelease", "Plan", "Release"]
