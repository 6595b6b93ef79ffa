"""FriendlyCore means, and subsample-and-aggregate (docs/proofs/friendly.md).

In the order to read: `mean` and `aggregate` are the calls; `plan` has every public number, from the `forecast` of the
noise; `core` weighs the rows, `release` tests and adds noise, and `block_runner` runs a caller's function on blocks.
"""

from .aggregate import subsample_and_aggregate
from .mean import friendly_mean
from .plan import FriendlyGate
from .release import FriendlyRelease, NoCenter, friendly_center

__all__ = ["FriendlyGate", "FriendlyRelease", "NoCenter", "friendly_center", "friendly_mean", "subsample_and_aggregate"]
