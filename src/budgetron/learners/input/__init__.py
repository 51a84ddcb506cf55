"""Validation and encoding of input: rows, labels, tasks, weights and dicts, each converted and checked once.

`validation` is called by local, sharded and served models alike. Nothing in here changes a model.
"""
