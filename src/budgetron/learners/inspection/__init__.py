"""Inspection of a fitted learner: attributes, plots and explanations. Nothing in here changes a model."""

from budgetron.learners.inspection.attributes import Inspection

__all__ = ["Inspection"]
