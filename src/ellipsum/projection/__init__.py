"""Row-level private random projections: XP + G with exact calibration (docs/proofs/projections.md).

In the order to read: `run` has the call, `forecast` the expected errors, `curve` the guarantee, `matrix` the public
matrix, `products` the exact products of rows with it, `release` the result, and `parquet` its file.
"""

from .curve import ProjectionPrivacy
from .forecast import ProjectionWarning, choose_k, projection_forecast
from .release import Projection
from .run import project

__all__ = [
    "Projection",
    "ProjectionPrivacy",
    "ProjectionWarning",
    "choose_k",
    "project",
    "projection_forecast",
]
