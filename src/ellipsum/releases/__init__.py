"""Releases: noisy sums decoded to values, intervals and warnings."""
