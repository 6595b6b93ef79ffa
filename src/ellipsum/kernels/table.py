"""Which kernel runs which row map: one table."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from ..numerics.wide_integers import Ints
from ..row_maps.maps import RowMap

if TYPE_CHECKING:
    from .blocks import Columns
    from .memory import Rows

# The kind of a row map, and the class of its kernel. The modules of kernels compile, so they are imported when used.
KERNELS = {
    "diagonal": "kernels.ellipsoid.EllipsoidKernel",
    "matrix": "kernels.matrix.MatrixKernel",
    "clamped": "kernels.clamp.ClampedKernel",
    "squared": "kernels.squares.SquaresKernel",
    **dict.fromkeys(
        ("count", "column_histograms", "norm_histogram", "signed_parts", "directions", "second_moments", "sides"),
        "kernels.histograms.MapKernel",
    ),
    "prepared": "kernels.prepared.PreparedKernel",
    "side_by_side": "kernels.histograms.SideBySideKernel",
}


class Kernel(Protocol):
    """Adds the integer rows of a block to a total; a pure function of each row, run without the GIL."""

    @property
    def takes_columns(self) -> bool:
        """Whether it reads blocks of separate columns in place."""

    def __call__(self, block: Rows | Columns, total: Ints) -> None: ...


class GroupKernel(Protocol):
    """Adds the integer rows of a block to the sums of the rows' groups: low and high limbs, and counts of rows."""

    def __call__(self, block: Rows | Columns, codes: Ints, low: Ints, high: Ints, counts: Ints) -> None: ...


def kernel_for(row_map: RowMap) -> Kernel:
    """The kernel of a map."""
    module, _, name = KERNELS[row_map.kind].rpartition(".")
    kernel: Kernel = getattr(import_module(f"..{module}", __package__), name)(row_map)
    return kernel
