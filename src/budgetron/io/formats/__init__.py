"""Readers of file formats, and the choice among them."""
