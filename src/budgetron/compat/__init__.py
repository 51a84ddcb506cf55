"""Adapters that make learners usable in other libraries. scikit-learn needs none: learners are its estimators."""
