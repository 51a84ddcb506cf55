"""The learning rules in NumPy, one file or folder per rule. `engine.registry` finds them by name."""
