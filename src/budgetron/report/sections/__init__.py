"""The sections of a report, one to three per file. `assemble` puts them in order."""
