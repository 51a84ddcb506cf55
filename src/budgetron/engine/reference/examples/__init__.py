"""The stored examples of the NumPy engine: their rows, the slots of the store, and how rows are centred and scaled."""
