"""Pictures in one style, drawn with matplotlib (the `plots` extra), which is imported where a picture is drawn."""
