"""Plans: every public number of a release, made without data."""
