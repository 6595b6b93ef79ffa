"""Spark and friends: the same partial sums, somewhere else.

An engine folds a frame: one small result for each partition, merged pairwise or in heaps. Integers come back, the
same as from a local pass; noise is drawn by the caller's process alone and nothing here knows of it.
"""

from __future__ import annotations

from .base import EngineTable, Fold, accumulate_table, engine_table, is_frame

__all__ = ["EngineTable", "Fold", "accumulate_table", "engine_table", "is_frame"]
