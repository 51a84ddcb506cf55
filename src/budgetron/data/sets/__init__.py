"""Parsers of the data sets, one file each. `registry` lists them."""
