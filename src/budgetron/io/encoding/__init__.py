"""Turns the columns of a table into X: infers column types, parses values, scales numbers, encodes categories."""
