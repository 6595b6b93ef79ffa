"""Ellipsoids that rows are clipped to."""
