"""The two engines, which implement the learning rules, and the modules that they share.

`settings` are the inputs of a new engine, `registry` finds rules by name, `memory` plans byte budgets, `saved_state`
describes and checks the arrays of a state, `records` has the records that engines and learners exchange, `first_rows`
keeps the first rows of a model that plans its memory from them. `interface` declares the methods of an engine.
`reference` implements these methods in NumPy and defines every rule, `native` calls the compiled core. Learners choose
one of the two engines. No module of this package may import scikit-learn or a learner.
"""
