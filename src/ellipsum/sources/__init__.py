"""Where the rows are: one protocol for arrays, files, databases and clusters, and what opens them."""

from .local import LocalSource
from .open import open_source
from .protocol import Source
from .selection import EVERYTHING, Selection

__all__ = ["EVERYTHING", "LocalSource", "Selection", "Source", "open_source"]
