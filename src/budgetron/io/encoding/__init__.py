"""From the columns of a table to X: types of columns, parsing of values, scaling and one-hot encoding."""
