"""The memory of a Budgetron: the beliefs that fit into a budget, the arrays of each part, and changes of size."""
