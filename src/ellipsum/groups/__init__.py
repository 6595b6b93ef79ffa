"""A statistic for each group of rows, in one release: plans, their threshold, and what is published."""

from .plan import GroupPlan
from .release import GroupRelease

__all__ = ["GroupPlan", "GroupRelease"]
