"""Averages of the points that most others agree with, and subsample-and-aggregate (docs/proofs/friendly.md)."""

from .aggregate import subsample_and_aggregate
from .plan import FriendlyGate
from .release import FriendlyRelease, NoCenter, friendly_center, friendly_mean

__all__ = ["FriendlyGate", "FriendlyRelease", "NoCenter", "friendly_center", "friendly_mean", "subsample_and_aggregate"]
