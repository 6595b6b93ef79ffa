"""Row-level private random projections: XP + G with exact calibration (docs/proofs/projections.md)."""

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
