"""The models that a Budgetron mixes. `part` is their interface; `task_rows` stores their numbers for each task."""
