"""Compiled row loops, and (in `codegen`) the vector code they are made of. Imported only when rows are added."""
