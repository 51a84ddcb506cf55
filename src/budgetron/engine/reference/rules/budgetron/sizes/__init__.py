"""The memory of a Budgetron: which parts fit into a budget, the arrays of each part, and the change to another size."""
