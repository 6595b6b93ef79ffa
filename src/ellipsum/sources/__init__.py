"""Where the rows are: one protocol for arrays, files, databases and clusters, and the readers that open them.

In the order to read: `protocol` says what a source does, and `selection` which columns are read. `open` picks the
reader. `local` is the base of tables that this process reads in blocks; each kind has a file (`arrays`, `arrow`,
`csv`, `sql`, ...), and `paths` finds the files. `group_labels` and `group_codes` say which group a row belongs to,
`identities` which person; `people` sorts the rows of each person together, and `person_rows` makes one row of them.
`engine` is the base of frames of a cluster, and `spark` is one.
"""

from .local import Table
from .open import group_by_person, open_source
from .protocol import Source
from .selection import EVERYTHING, Selection

__all__ = ["EVERYTHING", "Selection", "Source", "Table", "group_by_person", "open_source"]
