"""Figures in one style, drawn with matplotlib (the `plots` extra), which is imported when a figure is drawn."""
