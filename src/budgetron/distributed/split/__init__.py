"""How a model is split: tasks to shards, shards to workers, shares of the budget, and rows to messages."""
