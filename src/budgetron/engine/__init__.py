"""The engines that do the arithmetic, and what both of them need.

`settings` says what an engine must know before its first example, `memory` plans a byte budget, `records` holds
what comes out of a step. `reference` is the definition of every rule, in NumPy; `native` is the compiled core behind
the same interface. Learners choose between the two; nothing in here knows scikit-learn.
"""
