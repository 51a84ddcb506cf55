"""The exceptions of models in shards. The service maps them to statuses."""

from __future__ import annotations

from budgetron.errors import BudgetronError, OperationalError


class Unfinished(OperationalError):
    """Shards still have to learn something that is on disk. It is learned before anything else."""


class InShards(BudgetronError):
    """The operation needs a model in one piece, and the model is in shards."""
