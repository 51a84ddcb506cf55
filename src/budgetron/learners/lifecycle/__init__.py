"""A model from its first block to its file: creation of the engine, the lock, other budgets, saving and loading."""
