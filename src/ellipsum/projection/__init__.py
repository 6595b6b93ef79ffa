"""Row-level private random projections: XP + G with exact calibration (docs/proofs/projections.md).

In the order to read: `run` is the call, `forecast` what it would be good for, `curve` its guarantee, `matrix` the
public matrix and exact products, `release` what is published, and `parquet` the file of it.
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
