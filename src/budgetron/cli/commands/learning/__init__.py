"""Commands that train models on files, compare and tune them, predict with them, and show them and their runs."""
