"""Bounded integer rows: the maps from rows to them, and the counts beside them."""
