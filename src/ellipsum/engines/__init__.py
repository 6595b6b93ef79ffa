"""Spark and friends: the same partial sums, somewhere else.

An engine folds a frame: one small result for each partition, merged pairwise or in heaps. Integers come back, the
same as from a local pass; noise is drawn by the caller's process alone and nothing here knows of it.
"""

from __future__ import annotations

from .base import EngineSource, Fold
from .opening import engine_source, is_frame

__all__ = ["EngineSource", "Fold", "engine_source", "is_frame"]
