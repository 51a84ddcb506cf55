"""How a model is split: shards of tasks, workers of shards, shares of the budget, and the rows of each message."""
