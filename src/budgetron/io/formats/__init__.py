"""Readers of file formats; `choose` picks the reader for a file."""
