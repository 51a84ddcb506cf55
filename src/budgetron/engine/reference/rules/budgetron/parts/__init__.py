"""The models that a Budgetron mixes: `part` is their interface, `task_rows` holds what they keep of every task."""
