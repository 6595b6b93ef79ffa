"""Rows of which only a magnitude is known: center, scales, axes and radius, learned privately."""

from .plan import LearningPlan, plan_learning
from .result import Learned
from .rounds import Rounds

__all__ = ["Learned", "LearningPlan", "Rounds", "plan_learning"]
