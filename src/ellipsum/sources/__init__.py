"""Sources of rows: one protocol for arrays, files, databases and clusters, and the readers that open them.

Read the modules in this order. `protocol` defines what a source does, and `selection` which columns are read. `open`
picks the reader. `local` is the base of tables that this process reads in blocks. Each kind of table has a module
(`arrays`, `arrow`, `csv`, `sql`, ...), and `paths` finds files. `group_labels` and `group_codes` determine the group
of a row, and `identities` its person. `people` brings the rows of each person together, and `person_rows` makes one
row of them. `engine` is the base of frames of a cluster, and `spark` is one of these.
"""

from .local import Table
from .open import group_by_person, open_source
from .protocol import Source
from .selection import EVERYTHING, Selection

__all__ = ["EVERYTHING", "Selection", "Source", "Table", "group_by_person", "open_source"]
