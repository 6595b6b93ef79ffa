"""FriendlyCore means, and subsample-and-aggregate (docs/proofs/friendly.md).

In the order to read: `calls` has the public functions. `plan` has every public number, with those of `forecast`. `core`
weighs the rows, `release` tests the weights and adds noise, and `block_runner` runs a caller's function on blocks.
"""

from .calls import friendly_mean, subsample_and_aggregate
from .forecast import FriendlyGate
from .release import FriendlyRelease, NoCenter, friendly_center

__all__ = ["FriendlyGate", "FriendlyRelease", "NoCenter", "friendly_center", "friendly_mean", "subsample_and_aggregate"]
