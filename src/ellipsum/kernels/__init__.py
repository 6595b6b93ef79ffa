"""Compiled row loops, and (in `generators`) the vector code they are made of. Imported only when rows are added."""
