"""The memory of a Budgetron: beliefs that fit into a budget, the arrays of each part, and changes of size."""
