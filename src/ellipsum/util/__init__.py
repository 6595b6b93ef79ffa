"""Foundations that know nothing of privacy: strict JSON, atomic files, signals, compilation."""
