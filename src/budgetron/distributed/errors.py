"""The exceptions of models in shards. The service maps them to statuses."""

from __future__ import annotations

from budgetron.errors import BudgetronError, OperationalError


class Unfinished(OperationalError):
    """A request is on disk, but not all shards have learned it. It will be learned before any other request.

    Until then, other requests raise this error too, and are not written. The message says whether the request of the
    caller is on disk.
    """


class InShards(BudgetronError):
    """The operation needs a model without shards, and the model is in shards."""
