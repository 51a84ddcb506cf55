"""Bytes: which parts fit into a budget, the arrays of each part, and a model of another size."""
