"""The estimators, one file per learning rule. `learners.registry` finds them by the names of their files."""
