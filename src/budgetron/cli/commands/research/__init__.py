"""Commands for data sets and for the tables and figures of the paper."""
