"""Learners in the dress of other libraries. scikit-learn needs none: they are its estimators already."""
