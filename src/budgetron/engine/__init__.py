"""The two engines, which implement the learning rules, and the modules that they share.

`settings` are the inputs of a new engine, `registry` finds rules by name, `memory` plans byte budgets, `saved_state`
describes and checks the arrays of a state, `records` are the results of a step. `reference` defines every rule in
NumPy; `native` is the compiled core with the same interface. Learners choose between the two.
Nothing in here may import scikit-learn or a learner.
"""
