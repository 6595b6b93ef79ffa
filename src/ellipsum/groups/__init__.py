"""A statistic for each group of rows, in one release: plans, their threshold, and what is published."""

from .description import GroupDescription
from .plan import GroupPlan
from .release import GroupRelease

__all__ = ["GroupDescription", "GroupPlan", "GroupRelease"]
