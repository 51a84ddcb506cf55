"""The engines, which implement the learning rules, and what both of them need.

`settings` are the inputs of a new engine, `memory` plans byte budgets, `records` are the results of a step. `reference`
defines every rule in NumPy; `native` is the compiled core with the same interface. Learners choose between the two.
Nothing in here may import scikit-learn or a learner.
"""
