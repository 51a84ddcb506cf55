"""Commands that train, compare and tune models on files, predict with them, and show models and recorded runs."""
