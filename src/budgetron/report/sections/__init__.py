"""The sections of a report, one or two per file. `assemble` puts them in order."""
